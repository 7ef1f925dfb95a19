//! The agent as a process: with a shell in etcd's place (`alone`, `ends`, `ipv6`, `secure`), and with real etcd binaries of every
//! supported minor (`real`, `damage`, `adoption`, `back`, `removed`, `fence`, `floor`, `recovery`, `restore`, `receive`, `crash`, `locked`), which `ETCD_BINARIES` must name (`$ETCD_BINARIES/3.5.35/etcd`, …).
//! MUST use loopback and `free_port` only; MUST NOT sleep where a condition can be awaited.

#[cfg(test)]
mod adoption;
#[cfg(test)]
mod alone;
#[cfg(test)]
mod back;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod ends;
#[cfg(test)]
mod etcd;
#[cfg(test)]
mod fence;
#[cfg(test)]
mod floor;
#[cfg(test)]
mod ipv6;
#[cfg(test)]
mod locked;
#[cfg(test)]
mod real;
#[cfg(test)]
mod receive;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod removed;
#[cfg(test)]
mod restore;
#[cfg(test)]
mod secure;
#[cfg(test)]
mod support;
#[cfg(test)]
mod survivor;
#[cfg(test)]
mod tls;
