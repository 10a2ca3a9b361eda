//! Inputs that were once mishandled, kept under `testdata/savefile/`.
