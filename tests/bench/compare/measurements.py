"""What is measured of each system, and which of it is divided by which."""

from typing import NamedTuple

LUA_SCRIPT = "tests/bench/others/reserve.lua"


class Measurement(NamedTuple):
    name: str
    system: str
    words: str  # for the chart and the table
    arguments: tuple  # of the load generator
    # Open loop: the rate is this much of what another measurement of the round has reached.
    share_of: str = ""
    share: float = 0.0


def _ours_and_echo(name: str, words: str, *arguments: str) -> list:
    return [
        Measurement(f"echo_{name}", "echo", f"gRPC echo, {words}", ("--echo", *arguments)),
        Measurement(f"ours_{name}", "ours", f"idempotencyd, {words}", arguments),
    ]


def _open_loop(name: str, share: float) -> list:
    """At the same rate for both: this much of what we reach with 64 calls in flight."""
    return [
        Measurement(f"{system}_{name}", system, f"{words}, open loop, {share:g} of our rate",
                    (*arguments, "--in-flight=2000"), "ours_reserve_64", share)
        for system, words, arguments in (("echo", "gRPC echo", ("--echo",)),
                                         ("ours", "idempotencyd", ()))
    ]  # fmt: skip


def _other(name: str, system: str, words: str, *arguments: str) -> Measurement:
    return Measurement(name, system, words, arguments)


# In the order of a round; neighbours are compared with each other. What takes a rate from another
# measurement comes after it.
MEASUREMENTS = [
    *_ours_and_echo("reserve_64", "Reserve, 64 in flight", "--in-flight=64"),
    *_ours_and_echo("reserve_256", "Reserve, 256 in flight", "--in-flight=256"),
    _other("redis_lua", "redis", "Redis, equal Lua script, 50 connections",
           "--system=redis_lua", "--in-flight=50"),
    _other("redis_set", "redis", "Redis, SET NX EX, 50 connections",
           "--system=redis_set", "--in-flight=50"),
    _other("postgres_16", "postgres", "PostgreSQL, INSERT, 16 connections",
           "--system=postgres", "--in-flight=16"),
    _other("postgres_64", "postgres", "PostgreSQL, INSERT, 64 connections",
           "--system=postgres", "--in-flight=64"),
    _other("etcd_256", "etcd", "etcd, Txn, 256 in flight", "--system=etcd", "--in-flight=256"),
    *_ours_and_echo("lifecycle_256", "Reserve + Complete, 256 in flight",
                    "--mix=lifecycle", "--in-flight=256"),
    *_ours_and_echo("replay_256", "replay, 256 in flight",
                    "--mix=replay", "--in-flight=256", "--keys=100000"),
    *_ours_and_echo("pipeline_32", "Pipeline, 32 a message",
                    "--api=pipeline", "--commands=32", "--in-flight=16"),
    _other("redis_lua_32", "redis", "Redis, equal Lua script, 50 connections, 32 at once",
           "--system=redis_lua", "--in-flight=50", "--commands=32"),
    _other("redis_set_32", "redis", "Redis, SET NX EX, 50 connections, 32 at once",
           "--system=redis_set", "--in-flight=50", "--commands=32"),
    _other("postgres_32", "postgres", "PostgreSQL, 32 INSERTs a transaction, 8 connections",
           "--system=postgres", "--in-flight=8", "--commands=32"),
    *_ours_and_echo("client_64", "C++ client with batching, 64 callers",
                    "--api=client", "--in-flight=64", "--connections=1"),
    *_open_loop("half", 0.5),
    *_open_loop("quarter", 0.25),
    Measurement("echo_own_half", "echo", "gRPC echo, open loop at half of its own rate",
                ("--echo", "--in-flight=2000"), "echo_reserve_64", 0.5),
]  # fmt: skip

SYSTEMS = ["echo", "ours", "redis", "postgres", "etcd"]

# The load generator's own threads, where it speaks gRPC: the same for echo and service. With one,
# the echo does a fifth less in the closed loop; in the open loop a second one only costs.
CLOSED_LOOP_THREADS = 2
OPEN_LOOP_THREADS = 1


class Ratio(NamedTuple):
    name: str
    of: str
    to: tuple  # the best of these
    target: float = 0.0  # at least; 0: none


RATIOS = [
    Ratio("reserve_unary_64_vs_echo", "ours_reserve_64", ("echo_reserve_64",), 0.60),
    Ratio("reserve_unary_256_vs_echo", "ours_reserve_256", ("echo_reserve_256",), 0.75),
    Ratio("reserve_unary_vs_redis_lua", "ours_reserve_256", ("redis_lua",), 1.0),
    Ratio("reserve_unary_vs_redis_set", "ours_reserve_256", ("redis_set",)),
    Ratio("reserve_unary_vs_postgres", "ours_reserve_256", ("postgres_16", "postgres_64"), 2.0),
    Ratio("reserve_unary_vs_etcd", "ours_reserve_256", ("etcd_256",)),
    Ratio("lifecycle_unary_vs_two_echoes", "ours_lifecycle_256", ("echo_lifecycle_256",), 0.70),
    Ratio("replay_unary_vs_echo", "ours_replay_256", ("echo_replay_256",), 0.90),
    Ratio("pipeline_vs_redis_lua_pipelined", "ours_pipeline_32", ("redis_lua_32",), 2.0),
    Ratio("pipeline_vs_redis_set_pipelined", "ours_pipeline_32", ("redis_set_32",)),
    Ratio("pipeline_vs_postgres", "ours_pipeline_32", ("postgres_16", "postgres_64"), 6.0),
    Ratio("pipeline_vs_postgres_batched", "ours_pipeline_32", ("postgres_32",)),
    Ratio("pipeline_vs_echo", "ours_pipeline_32", ("echo_pipeline_32",)),
    Ratio("client_vs_redis_lua_unpipelined", "ours_client_64", ("redis_lua",), 2.0),
    Ratio("client_vs_redis_set_unpipelined", "ours_client_64", ("redis_set",)),
    Ratio("client_vs_echo", "ours_client_64", ("echo_client_64",)),
]

# p99 in the open loop, ours divided by what it may be: 1.5 times the echo's, and one fdatasync.
# Lower is better; at most one is the target.
P99_ECHO_FACTOR = 1.5
P99_RATIOS = {
    "p99_half_load_vs_allowed": ("ours_half", "echo_half"),
    "p99_half_load_each_vs_allowed": ("ours_half", "echo_own_half"),
    "p99_quarter_load_vs_allowed": ("ours_quarter", "echo_quarter"),
}
P99_TARGETS = {"p99_half_load_vs_allowed": 1.0}
