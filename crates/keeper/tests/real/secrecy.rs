//! Encrypted bases: the writer has no key that decrypts, and a reader without one can tell only that the bytes are the same.

use std::io::Read as _;

use age::secrecy::ExposeSecret as _;
use archive::work::{Cause, Depth, Task};

use crate::damage::failed;
use crate::kit::{Bench, on_every_version};
use crate::round::{fetch, made, verified, verify};

#[test]
fn what_is_encrypted_is_read_with_an_identity_only() {
    on_every_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(100).await;
        let (own, other) = (
            age::x25519::Identity::generate(),
            age::x25519::Identity::generate(),
        );
        let second = age::x25519::Identity::generate();
        let mut task = bench.snapshot("a");
        task.recipients = vec![own.to_public().to_string(), second.to_public().to_string()];
        made(bench.run(Task::Snapshot(task)).await);
        let stored = std::fs::read(bench.data("a")).unwrap();
        assert!(stored.starts_with(b"age-encryption.org/v1\n"));

        // As `age -d | zstd -d` would.
        let decryptor = age::Decryptor::new(stored.as_slice()).unwrap();
        let key: &dyn age::Identity = &second;
        let mut plain = Vec::new();
        let mut reader = decryptor.decrypt(std::iter::once(key)).unwrap();
        reader.read_to_end(&mut plain).unwrap();
        let by_hand = zstd::decode_all(plain.as_slice()).unwrap();

        let tried = verified(bench.run(verify(&bench, None)).await);
        assert_eq!((tried.depth, tried.keys), (Depth::ChecksumOnly, None));
        let (cause, _) = failed(bench.run(fetch(&bench, None)).await);
        assert_eq!(cause, Cause::Identity);

        let identity = bench.directory.path().join("identity/key.txt");
        std::fs::write(&identity, other.to_string().expose_secret()).unwrap();
        for task in [fetch(&bench, None), verify(&bench, None)] {
            let (cause, message) = failed(bench.run(task).await);
            assert!(
                cause == Cause::Identity && message.contains(".db.zst.age"),
                "{message}"
            );
        }
        let text = format!("# made for a test\n{}\n", own.to_string().expose_secret());
        std::fs::write(bench.directory.path().join("identity/newer.txt"), text).unwrap();
        let tried = verified(bench.run(verify(&bench, None)).await);
        assert_eq!((tried.depth, tried.keys), (Depth::Restored, Some(100)));
        assert!(matches!(
            bench.run(fetch(&bench, None)).await,
            archive::work::Answer::Done(_)
        ));
        let fetched = std::fs::read(bench.directory.path().join("into/snapshot.db")).unwrap();
        assert!(fetched == by_hand);
    });
}
