//! Every command and every error as text, as JSON and on terminals that can show little. Snapshots: to be read, not counted.

mod changing;
mod clusters;
mod doctoring;
mod looking;
mod troubles;
