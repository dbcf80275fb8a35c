//! Service of `corrust serve`: metrics for Prometheus, and a page for browsers. All of the page is in the
//! program, and it loads nothing from elsewhere.

mod board;
mod curves;
mod descriptors;
mod door;
mod metrics;
mod waterfall;

use std::{net::TcpListener, sync::Arc};

use axum::{
    Json, Router,
    extract::{Query, State},
    http::header,
    response::IntoResponse,
    routing::get,
};

pub use board::{About, Board, Dumps};
use corrust::{Error, Result};
pub use curves::{AboutCounts, CurveBoard};
use metrics::Show;

/// Most connections that are open at a time.
const CONNECTIONS: usize = 64;

/// Serves `board` on `listener`, to requests for its address, `localhost`, or one of `names`, in a thread of its own,
/// until the program ends. Connections are bounded in number and time; descriptors for files stay free.
///
/// # Errors
/// [`Error::Invalid`] when the system has no thread, no events or no descriptors for it.
pub fn start<B: Show>(listener: TcpListener, board: Arc<B>, names: Vec<String>) -> Result<()> {
    let fault = |error| Error::invalid(format!("cannot serve pages: {error}"));
    listener.set_nonblocking(true).map_err(fault)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(fault)?;
    let most = descriptors::for_connections(CONNECTIONS).map_err(fault)?;
    let serve = move || {
        runtime.block_on(async {
            if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                door::accept(listener, routes(board), names, most).await;
            }
        });
    };
    std::thread::Builder::new().name("http".into()).spawn(serve).map(drop).map_err(fault)
}

fn routes<B: Show>(board: Arc<B>) -> Router {
    let text = |kind: &'static str, text: &'static str| {
        get(move || async move { ([(header::CONTENT_TYPE, kind)], text) })
    };
    let [page, script] = B::PAGE;
    let figures = include_str!("figures.js");
    Router::new()
        .route("/", text("text/html; charset=utf-8", page))
        .route("/figures.js", text("text/javascript; charset=utf-8", figures))
        .route("/page.js", text("text/javascript; charset=utf-8", script))
        .route("/page.css", text("text/css; charset=utf-8", include_str!("page.css")))
        .route("/metrics", get(metrics::<B>))
        .route("/live.json", get(live::<B>))
        .with_state(board)
}

async fn metrics<B: Show>(State(board): State<Arc<B>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], board.metrics_text())
}

async fn live<B: Show>(
    State(board): State<Arc<B>>,
    Query(look): Query<B::Look>,
) -> impl IntoResponse {
    Json(board.live(&look))
}
