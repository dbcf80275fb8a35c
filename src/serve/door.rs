//! Admission of connections: bounded in number and in time, for host names of this service alone.

use std::{collections::VecDeque, net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header, uri::Authority},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{net::TcpStream, task::JoinHandle};

/// Longest time for the headers of a request.
const HEADERS: Duration = Duration::from_secs(5);

/// Longest time of a connection: it has one request, whose answer is read by then.
const CONNECTION: Duration = Duration::from_secs(20);

/// Bytes of a request's headers.
const HEADER_BYTES: usize = 16 << 10;

/// No script, style or connection but our own, and no frame of another page around it.
const POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'self'; img-src data:; frame-ancestors 'none'");

/// The address that a connection came to.
#[derive(Clone, Copy)]
struct Here(IpAddr);

/// Answers connections to `listener`, at most `most` at a time: the oldest is closed first. `names` are host names that
/// are accepted beside its address and `localhost`.
pub async fn accept(
    listener: tokio::net::TcpListener,
    routes: Router,
    names: Vec<String>,
    most: usize,
) {
    let routes = routes.layer(middleware::from_fn_with_state(Arc::new(names), check));
    let mut inside: VecDeque<JoinHandle<()>> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // One that has left already, or a lack that passes by.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        inside.retain(|connection| !connection.is_finished());
        while inside.len() >= most {
            if let Some(first) = inside.pop_front() {
                first.abort();
                // Its socket is closed then.
                let _ = first.await;
            }
        }
        inside.push_back(tokio::spawn(answer(stream, routes.clone())));
    }
}

/// Answers the one request of a connection.
async fn answer(stream: TcpStream, routes: Router) {
    let Ok(here) = stream.local_addr() else { return };
    let service = TowerToHyperService::new(routes.layer(Extension(Here(here.ip()))));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(HEADER_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A browser that leaves, or asks for nonsense, ends its own connection only.
    let _ = tokio::time::timeout(CONNECTION, connection).await;
}

/// Refuses requests for hosts that are others, as a page has whose name was made to lead here (DNS rebinding).
async fn check(
    State(names): State<Arc<Vec<String>>>,
    Extension(here): Extension<Here>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers().get_all(header::HOST);
    let mut hosts = headers.iter().map(|host| host.to_str().ok()?.parse::<Authority>().ok());
    let target = request.uri().authority().is_none_or(|host| is_ours(host, here, &names));
    let ours = |host: Option<Authority>| host.is_some_and(|host| is_ours(&host, here, &names));
    let mut answer = match target && hosts.all(ours) {
        true => next.run(request).await,
        false => {
            let reason = "corrust serve: the request's Host is none of its own: expected its address, localhost, or a name \
                          that --http-host gives it\n";
            (StatusCode::MISDIRECTED_REQUEST, reason).into_response()
        }
    };
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// Whether a host is the one that the connection came to, whatever its port: a tunnel's is another.
fn is_ours(host: &Authority, Here(here): Here, names: &[String]) -> bool {
    let name = host.host().trim_end_matches('.');
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<IpAddr>().map(|address| address.to_canonical());
    address.is_ok_and(|address| address.is_loopback() || address == here.to_canonical())
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|own| own.eq_ignore_ascii_case(name) || own.eq_ignore_ascii_case(bare))
}
