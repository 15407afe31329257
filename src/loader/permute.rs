//! Random orders that can be had again: of the same seed comes the same order, for ever.

use twox_hash::XxHash64;

/// SplitMix64: a stream of random numbers that is fully defined by where it starts.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Starts from XXH64 of the eight bytes of `epoch` and those of `stream`, seeded with `seed`; numbers are
    /// little-endian. Streams of other numbers have nothing in common.
    pub(crate) fn new(seed: u64, epoch: u64, stream: u64) -> Self {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&epoch.to_le_bytes());
        bytes[8..].copy_from_slice(&stream.to_le_bytes());
        Random(XxHash64::oneshot(seed, &bytes))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, or 0 if that is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // The upper half of the product: uneven by less than one in 2^64 / bound.
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Puts the items in random order, each order as likely as any other (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (2..=items.len()).rev() {
            items.swap(end - 1, self.below(end));
        }
    }
}

/// The last step of SplitMix64, which spreads each bit over all others.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

const ROUNDS: usize = 8;

/// A random order of the numbers below `len`, each computed from its place: nothing is sorted or held.
///
/// It is a Feistel network over an even number of bits, at least six: a place is encrypted again until it lands below
/// `len`, on average less than four times, or 64 for a few rows.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    len: u64,
    half: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    pub(crate) fn new(len: u64, mut random: Random) -> Self {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        let half = bits.div_ceil(2).max(3);
        Permutation { len, half, keys: std::array::from_fn(|_| random.next()) }
    }

    /// The number at a place, which is below `len`.
    pub(crate) fn at(&self, place: u64) -> u64 {
        debug_assert!(place < self.len, "the place is one of the order's");
        let mut number = self.encrypt(place);
        while number >= self.len {
            number = self.encrypt(number);
        }
        number
    }

    fn encrypt(&self, number: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let (mut left, mut right) = (number >> self.half, number & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        (left << self.half) | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Orders must outlive versions of all libraries.
    #[test]
    fn the_numbers_are_splitmix64() {
        let mut random = Random(1_234_567);
        let known: [u64; 3] = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([(); 3].map(|()| random.next()), known);
        let mut bytes = [0; 16];
        (bytes[0], bytes[8]) = (2, 3);
        assert_eq!(Random::new(1, 2, 3).0, XxHash64::oneshot(1, &bytes));
    }

    #[test]
    fn a_permutation_holds_each_number_once() {
        for len in [1u64, 2, 3, 63, 64, 65, 1000, 4096, 4097] {
            for seed in 0..5 {
                let permutation = Permutation::new(len, Random::new(seed, 0, 0));
                let mut all: Vec<_> = (0..len).map(|place| permutation.at(place)).collect();
                if len > 60 {
                    assert_ne!(all, (0..len).collect::<Vec<_>>());
                }
                all.sort_unstable();
                assert_eq!(all, (0..len).collect::<Vec<_>>());
            }
        }
        // The largest there is, too.
        assert!(Permutation::new(u64::MAX, Random::new(0, 0, 0)).at(u64::MAX - 1) < u64::MAX);
    }

    /// Of three items, each of the six orders is as likely as the others: 1000 ± 5 standard deviations of 29.
    #[test]
    fn orders_are_as_likely_as_each_other() {
        let (mut shuffled, mut permuted) = ([0; 27], [0; 27]);
        for seed in 0..6000 {
            let mut items = [0, 1, 2];
            Random::new(seed, 1, 2).shuffle(&mut items);
            shuffled[items[0] * 9 + items[1] * 3 + items[2]] += 1;
            let permutation = Permutation::new(3, Random::new(seed, 1, 2));
            let items = [0, 1, 2].map(|place| permutation.at(place) as usize);
            permuted[items[0] * 9 + items[1] * 3 + items[2]] += 1;
        }
        for counts in [shuffled, permuted] {
            let counts: Vec<_> = counts.into_iter().filter(|count| *count > 0).collect();
            assert_eq!(counts.len(), 6);
            assert!(counts.iter().all(|count| (855..1145).contains(count)), "{counts:?}");
        }
    }

    /// Over many seeds, a place holds each number about as often: chi squared of 49 degrees, below 100.
    #[test]
    fn a_place_holds_each_number_as_often() {
        let mut counts = [0f64; 50];
        for seed in 0..10_000 {
            counts[Permutation::new(50, Random::new(seed, 0, 0)).at(7) as usize] += 1.0;
        }
        let chi: f64 = counts.iter().map(|count| (count - 200.0) * (count - 200.0) / 200.0).sum();
        assert!(chi < 100.0, "{chi}");
    }
}
