// What --engine=postgres is told. Plain values: whoever reads flags needs nothing else of the
// engine.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_OPTIONS_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <string>

#include "keystore/core/time.h"

namespace idempotency::keystore {

// For upkeep and for hints, besides those of the options.
inline constexpr size_t kPostgresOwnConnections = 2;

struct PostgresOptions {
  // As libpq takes them. Several hosts are tried in turn, and only one that takes writes is used.
  // What it does not say, libpq's environment does, and ~/.pgpass: a password is best left to
  // those.
  std::string uri;
  // 1 to 100; two more are used for upkeep and for hints.
  size_t connections = 4;
  // Also a server on another machine may be spoken to without TLS.
  bool allow_plaintext = false;
  // How far the clocks of the servers that share the database may be apart.
  core::Duration clock_skew = std::chrono::milliseconds(500);
  // Without a byte from the server for so long, a statement counts as unanswered.
  core::Duration reply_timeout = std::chrono::seconds(30);
  // Where somebody only wants to know how the server stands, so long in all, of which a sixth is
  // kept for what a server is asked once there is a connection. At start, where the URI names
  // several hosts: how long they are waited for before the newest of those that answer is taken.
  core::Duration look_timeout = std::chrono::seconds(6);
  // How often it tells that it is alive and removes what has expired; zero: never by itself.
  core::Duration upkeep_interval = std::chrono::seconds(10);
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_OPTIONS_H_
