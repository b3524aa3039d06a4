//! Talks to a broker with the released Rust client, one step after the other.
//!
//! Usage: `iggy-probe HOST:PORT`. Each step prints one line: `passed NAME`, or `failed NAME: WHY`.
//! A step may use what the steps before it left; the exit code is 0 if all were tried.

mod steps;

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use iggy::prelude::*;

pub type Outcome = Result<(), Box<dyn Error>>;

const STEP_LIMIT: Duration = Duration::from_secs(20);

/// Fails the step with `what` unless `holds`.
pub fn expect(holds: bool, what: impl Into<String>) -> Outcome {
    if holds { Ok(()) } else { Err(what.into().into()) }
}

/// Fails the step unless `result` is a refusal with this code.
pub fn expect_refused<T>(result: Result<T, IggyError>, code: IggyError) -> Outcome {
    match result {
        Ok(_) => Err(format!("was done, should be refused with {code}").into()),
        Err(error) => expect(
            error.as_code() == code.as_code(),
            format!("refused with {error}, should be {code}"),
        ),
    }
}

/// A connected client that is not logged in.
pub async fn connect(address: &str) -> Result<IggyClient, IggyError> {
    let client =
        IggyClient::builder().with_tcp().with_server_address(address.to_string()).build()?;
    client.connect().await?;
    Ok(client)
}

/// A connected client, logged in as this user.
pub async fn log_in(address: &str, name: &str, password: &str) -> Result<IggyClient, IggyError> {
    let client = connect(address).await?;
    client.login_user(name, password).await?;
    Ok(client)
}

async fn run(name: &str, step: impl Future<Output = Outcome>) {
    let outcome = match tokio::time::timeout(STEP_LIMIT, step).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("no answer in {} s", STEP_LIMIT.as_secs()).into()),
    };
    match outcome {
        Ok(()) => println!("passed {name}"),
        Err(why) => println!("failed {name}: {why}"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("usage: iggy-probe HOST:PORT")?;
    let client = connect(&address).await?;
    run("login", steps::login(&client)).await;
    run("login with a wrong password", steps::wrong_password(&address)).await;
    run("create", steps::create(&client)).await;
    run("create twice", steps::create_twice(&client)).await;
    run("update", steps::update(&client)).await;
    run("describe options", steps::describe_options(&client)).await;
    run("send", steps::send(&client)).await;
    run("send by key and in turn", steps::send_by_key_and_in_turn(&client)).await;
    run("poll", steps::poll(&client)).await;
    run("poll by time", steps::poll_by_time(&client)).await;
    run("poll next", steps::poll_next(&client)).await;
    run("offsets", steps::offsets(&client)).await;
    run("groups", steps::groups(&client)).await;
    run("group of two", steps::group_of_two(&client, &address)).await;
    run("users", steps::users(&client)).await;
    run("users who log in", steps::users_who_log_in(&client, &address)).await;
    run("permissions", steps::permissions(&client, &address)).await;
    run("tokens", steps::tokens(&client)).await;
    run("tokens that log in", steps::tokens_that_log_in(&client, &address)).await;
    run("stats", steps::stats(&client)).await;
    run("clients", steps::clients(&client)).await;
    run("cluster metadata", steps::cluster_metadata(&client)).await;
    run("partitions", steps::partitions(&client)).await;
    run("segments", steps::segments(&client)).await;
    run("flush", steps::flush(&client)).await;
    run("purge", steps::purge(&client)).await;
    run("snapshot", steps::snapshot(&client)).await;
    run("delete", steps::delete(&client)).await;
    run("logout", steps::logout(&client)).await;
    Ok(())
}
