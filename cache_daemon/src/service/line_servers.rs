//! The servers that PAM lines name: one client for each, so that its connections are used again.

use std::sync::{Arc, Mutex, PoisonError};

use crate::server::{Client, computer_name};
use crate::settings;

/// More than this are not kept; a host has a handful of PAM lines.
const KEPT_MAX: usize = 8;

/// The clients, the one used last in the end. They live as long as the settings that they are beside: a changed CA file
/// counts after a reload.
#[derive(Default)]
pub(super) struct LineServers(Mutex<Vec<LineServer>>);

/// A server and what the line says of it.
#[derive(Clone)]
pub(super) struct LineServer {
    pub(super) settings: settings::Server,
    pub(super) client: Arc<Client>,
}

impl LineServers {
    /// The client for `server`, made at its first use. Opens nothing.
    pub(super) fn of(&self, server: settings::Server) -> LineServer {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|kept| kept.settings == server).map(|index| kept.remove(index));
        let line = found.unwrap_or_else(|| LineServer {
            client: Arc::new(Client::new(&server, &computer_name())),
            settings: server,
        });
        if kept.len() >= KEPT_MAX {
            // Its logins keep it until they end.
            kept.remove(0);
        }
        kept.push(line.clone());
        line
    }
}

#[cfg(test)]
mod tests {
    use privacyidea_contract::wire::Overrides;

    use super::*;

    fn server(number: usize, any_certificate: bool) -> settings::Server {
        let url = Some(format!("https://pi{number}.example.org"));
        settings::Server::of_a_line(&Overrides { url, any_certificate, ..Overrides::default() })
            .unwrap()
            .unwrap()
    }

    #[test]
    fn a_client_is_kept_for_each_server_and_for_a_few_only() {
        let servers = LineServers::default();
        let first = servers.of(server(0, false));
        assert!(Arc::ptr_eq(&first.client, &servers.of(server(0, false)).client));
        let unverified = servers.of(server(0, true));
        assert!(!Arc::ptr_eq(&first.client, &unverified.client), "never the other's connections");
        for number in 1..=KEPT_MAX {
            servers.of(server(number, false));
            // In use, so it is kept.
            assert!(Arc::ptr_eq(&first.client, &servers.of(server(0, false)).client));
        }
        assert_eq!(servers.0.lock().unwrap().len(), KEPT_MAX);
        assert!(!Arc::ptr_eq(&unverified.client, &servers.of(server(0, true)).client));
    }
}
