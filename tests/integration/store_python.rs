//! Python opens what we save, and we open what it saves.
