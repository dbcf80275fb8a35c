//! `corrust serve` in tests.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, SocketAddrV4, TcpStream},
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
    time::{Duration, Instant},
};

use corrust::format::npy::Reader;

use crate::support::{command, witness};

/// `corrust serve`, running.
pub struct Service {
    pub child: Child,
    /// Address at which it receives.
    pub listen: SocketAddrV4,
    /// Address of its page.
    pub http: SocketAddr,
    errors: Option<ChildStderr>,
    output: BufReader<std::process::ChildStdout>,
}

impl Service {
    /// Starts it where it finds ports that are free.
    pub fn start(folder: &Path, arguments: &str) -> Self {
        // A machine that does other work correlates all that came, too.
        let arguments =
            format!("serve --listen 127.0.0.1:0 --http 127.0.0.1:0 --drain 10min {arguments}");
        Self::of(&mut command::command(folder, &arguments))
    }

    /// Starts it by a command, which ends with its arguments.
    pub fn of(command: &mut Command) -> Self {
        let arguments = format!("{command:?}");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let mut errors = child.stderr.take().unwrap();
        if !line.starts_with("listening to ") {
            let mut said = String::new();
            errors.read_to_string(&mut said).unwrap();
            panic!("{arguments}: {line}{said}");
        }
        let listen = line["listening to ".len()..].split([' ', ',']).next().unwrap();
        let http = line.trim().rsplit("http://").next().unwrap();
        Self {
            listen: listen.parse().unwrap(),
            http: http.parse().unwrap(),
            child,
            errors: Some(errors),
            output,
        }
    }

    /// The body of a page.
    pub fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.http).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.http)
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Checks that the page is whole: its scripts find their elements in it, and it loads nothing from elsewhere.
    pub fn check_page(&self) {
        let page = self.get("/");
        let after = |text: &str, before: &str| -> Vec<String> {
            let parts = text.split(before).skip(1);
            parts.map(|part| part.split(['"', '\'']).next().unwrap().to_owned()).collect()
        };
        let mut parts = after(&page, "src=\"");
        parts.extend(after(&page, "<link rel=\"stylesheet\" href=\""));
        assert_eq!(parts, ["figures.js", "page.js", "page.css"]);
        for part in parts {
            let text = self.get(&format!("/{part}"));
            assert!(!text.contains("//www.") && !text.contains("http") && !text.contains("url("));
            for call in ["element(\"", "axes(\"", "surface(\"", "bars(\"", "legend(\"", "rows(\""] {
                for id in after(&text, call) {
                    assert!(page.contains(&format!(" id=\"{id}\"")), "{part}: {id}");
                }
            }
        }
        assert!(!page.contains("http"), "{page}");
    }

    /// The value of a metric.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}: {text}")).parse().unwrap()
    }

    /// Waits until a metric has so large a value.
    pub fn wait(&self, name: &str, value: f64) {
        let begun = Instant::now();
        while self.metric(name) < value {
            assert!(begun.elapsed() < Duration::from_secs(60), "{name}: {}", self.get("/metrics"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it as service managers do, and returns what it said.
    pub fn end(mut self) -> String {
        let id = self.child.id().to_string();
        witness::run(Command::new("kill").args(["-TERM", &id])).unwrap();
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        self.errors.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The numbers of a NumPy file.
pub fn numbers<T: bytemuck::Pod>(path: &Path) -> Vec<T> {
    let bytes = Reader::open(path).unwrap().read_all().unwrap();
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}
