//! One binary for all integration tests, so that the engine and libtorch are linked once.

mod conformance;
