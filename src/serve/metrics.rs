//! Metrics, and the displays that have them.

use std::fmt::Write;

use corrust::live::{Fate, Tally, spead::Fault};
use serde::{Serialize, de::DeserializeOwned};

/// A live display with metrics and a page.
pub trait Show: Send + Sync + 'static {
    /// Request of a viewer.
    type Look: DeserializeOwned + Send;
    /// Data that the page draws.
    type Live: Serialize;

    /// The page, and its script.
    const PAGE: [&str; 2];

    /// All metrics.
    fn families(&self) -> Vec<Family>;

    /// Data for the page, as a viewer asks for it.
    fn live(&self, look: &Self::Look) -> Self::Live;

    /// All metrics in Prometheus' format.
    fn metrics_text(&self) -> String {
        let mut text = String::new();
        for Family { name, help, kind, metrics } in self.families() {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for Metric { labels, value } in metrics {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        }
        text
    }

    /// Names and labels of metrics, as `/metrics` has them, and their values.
    fn values(&self) -> Vec<(String, String)> {
        let values = self.families().into_iter().flat_map(|family| {
            let name = family.name;
            let metrics = family.metrics.into_iter();
            metrics.map(move |Metric { labels, value }| (format!("{name}{labels}"), value))
        });
        values.collect()
    }
}

/// A metric of a family.
struct Metric {
    labels: String,
    value: String,
}

/// Metrics of one name.
pub struct Family {
    name: &'static str,
    help: &'static str,
    kind: &'static str,
    metrics: Vec<Metric>,
}

impl Family {
    /// Family without metrics.
    pub fn new(name: &'static str, kind: &'static str, help: &'static str) -> Self {
        Self { name, help, kind, metrics: Vec::new() }
    }

    /// Adds a value.
    pub fn one(mut self, value: impl ToString) -> Self {
        self.metrics.push(Metric { labels: String::new(), value: value.to_string() });
        self
    }

    /// Adds the value of one label.
    pub fn of(mut self, label: &str, name: impl ToString, value: impl ToString) -> Self {
        let labels = format!("{{{label}=\"{}\"}}", name.to_string());
        self.metrics.push(Metric { labels, value: value.to_string() });
        self
    }
}

/// Metrics of received packets, common to all streams.
pub fn received(tally: &Tally) -> Vec<Family> {
    let counter = |name, help| Family::new(name, "counter", help);
    let mut faults = counter("corrust_bad_packets_total", "Packets that were refused, by fault.");
    for fault in Fault::ALL {
        faults = faults.of("fault", fault.name(), tally.faults(fault));
    }
    let mut heaps =
        counter("corrust_heaps_total", "Heaps, frames or packets of counts, by their fate.");
    for fate in Fate::ALL {
        heaps = heaps.of("fate", fate.name(), tally.heaps(fate));
    }
    let gauge = |name, help| Family::new(name, "gauge", help);
    let mut sockets = vec![
        counter("corrust_socket_packets_total", "Packets that came to a socket."),
        counter("corrust_socket_bytes_total", "Their bytes."),
        counter(
            "corrust_socket_dropped_packets_total",
            "A socket's packets that the system dropped.",
        ),
        counter("corrust_socket_bad_packets_total", "A socket's packets that were refused."),
        counter("corrust_socket_core_seconds_total", "Time that a core has worked for a socket."),
        gauge("corrust_socket_held_slots", "Slots in which packets of incomplete heaps stay."),
        gauge("corrust_socket_slots", "Slots in which they could stay."),
    ];
    for (number, socket) in tally.sockets.iter().enumerate() {
        let values = [
            socket.packets.to_string(),
            socket.bytes.to_string(),
            socket.dropped.to_string(),
            socket.faults.to_string(),
            socket.worked.as_secs_f64().to_string(),
            socket.held.to_string(),
            socket.slots.to_string(),
        ];
        let added = sockets.into_iter().zip(values);
        sockets = added.map(|(family, value)| family.of("socket", number, value)).collect();
    }
    // Plain streams have none.
    sockets.retain(|_| !tally.sockets.is_empty());
    let mut families = vec![
        counter("corrust_packets_total", "Packets received.").one(tally.packets),
        counter("corrust_bytes_total", "Bytes received.").one(tally.bytes),
        counter("corrust_dropped_packets_total", "Packets that the system dropped.")
            .one(tally.dropped),
        faults,
        heaps,
        counter("corrust_jumps_total", "Jumps of the timestamps.").one(tally.jumps),
    ];
    families.append(&mut sockets);
    families
}
