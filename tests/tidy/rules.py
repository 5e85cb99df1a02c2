"""What the house looks like, as data: who may include what, which calls only a few may make."""

import re

TOP_LEVEL = {
    "CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md",
    "client", "deploy", "keystore", "protos", "service", "tests",
}  # fmt: skip

# Never looked into: what builds and runs leave behind.
IGNORED_DIRECTORIES = {"build", "dist", "dist-test", "gen", "var", "node_modules", "__pycache__"}

FUNCTION_LINES_MAX = 70

# --- Layers -----------------------------------------------------------------------------------

STANDARD = re.compile(
    r"(?:algorithm|any|array|atomic|barrier|bit|bitset|charconv|chrono|codecvt|compare|complex"
    r"|concepts|condition_variable|coroutine|deque|exception|execution|filesystem|format"
    r"|forward_list|fstream|functional|future|initializer_list|iomanip|ios|iosfwd|iostream|istream"
    r"|iterator|latch|limits|list|locale|map|memory|memory_resource|mutex|new|numbers|numeric"
    r"|optional|ostream|queue|random|ranges|ratio|regex|scoped_allocator|semaphore|set"
    r"|shared_mutex|source_location|span|sstream|stack|stdexcept|stop_token|streambuf|string"
    r"|string_view|strstream|syncstream|system_error|thread|tuple|type_traits|typeindex|typeinfo"
    r"|unordered_map|unordered_set|utility|valarray|variant|vector|version"
    r"|c(?:assert|ctype|errno|fenv|float|inttypes|limits|locale|math|setjmp|signal|stdarg|stddef"
    r"|stdint|stdio|stdlib|string|time|uchar|wchar|wctype))"
)
SYSTEM = (
    r"(?:dirent|fcntl|malloc|netdb|poll|pthread|signal|spawn|stdlib|termios|time|unistd)\.h"
    r"|(?:arpa|linux|netinet|sys)/.*"
)
SHELL = r"keystore/\w+\.h"
PROTOBUF = r"google/protobuf/.*"
GRPC = r"grpc/.*|grpcpp/.*"
TESTING = r"gtest/.*|gmock/.*"

# (what it holds for, what it may include besides the standard library); the longest prefix that
# fits counts. Arrows point inward: service -> keystore shell -> engine interface -> core.
LAYERS = [
    ("keystore/core/", [r"keystore/core/.*"]),
    ("keystore/codec/", [r"keystore/(?:core|codec)/.*", r"openssl/.*", r"zlib\.h"]),
    ("keystore/engine/engine.h",
     [r"keystore/core/.*", r"keystore/engine/(?:backup_values|engine_check)\.h",
      r"absl/.*"]),
    ("keystore/engine/open_engine.h",
     [r"keystore/core/.*", r"keystore/engine/engine\.h", r"absl/.*"]),
    ("keystore/engine/",
     [r"keystore/(?:core|codec|engine)/.*", r"absl/.*", r"rocksdb/.*", r"openssl/.*", r"zlib\.h",
      SYSTEM]),
    # libpq is nobody else's.
    ("keystore/engine/postgres/",
     [r"keystore/(?:core|codec|engine)/.*", r"absl/.*", SYSTEM]),
    ("keystore/engine/postgres/pg_connection.cc",
     [r"keystore/(?:core|engine)/.*", r"absl/.*", r"libpq-fe\.h", SYSTEM]),
    ("keystore/engine/etcd/",
     [r"keystore/(?:core|codec|engine)/.*", r"absl/.*", r"etcdserverpb/.*", GRPC]),
    ("keystore/",
     [r"keystore/core/.*", r"keystore/engine/engine\.h", SHELL, r"absl/.*", r"zlib\.h", SYSTEM]),
    ("service/",
     [r"service/.*", r"keystore/core/.*", SHELL, r"idempotency/(?:v1|config|backup|engine|transfer)/.*",
      r"google/rpc/.*",
      PROTOBUF, GRPC, r"absl/.*", r"yaml-cpp/.*", r"spdlog/.*", r"openssl/.*",
      r"nlohmann/.*", r"prometheus/.*", r"civetweb\.h", SYSTEM]),
    # What it takes the place of, for gRPC, is nobody else's.
    ("service/listener/read_guard.cc",
     [r"service/listener/.*", SHELL, r"absl/.*", r"openssl/.*", r"dlfcn\.h", SYSTEM]),
    ("client/include/",
     [r"idempotency/(?!config/).*", PROTOBUF, GRPC, r"absl/.*"]),
    ("client/include/idempotency/testing/",
     [r"idempotency/(?!config/).*", PROTOBUF, GRPC, r"absl/.*", TESTING]),
    # A stranger's project: nothing of this tree but what is installed.
    ("client/quickstart/",
     [r"(?:example|bank\.grpc\.pb)\.h", r"idempotency/(?!config/).*", GRPC, r"absl/.*", SYSTEM]),
    ("client/",
     [r"client/.*", r"idempotency/(?!config/).*", PROTOBUF, GRPC, r"absl/.*", r"openssl/.*",
      r"CLI/.*", SYSTEM]),
    # Everything here also runs under the thread sanitizer, where there is no gRPC.
    ("tests/keystore/",
     [r"tests/(?:keystore|support)/.*", r"keystore/.*", r"absl/.*", r"rocksdb/.*", r"zlib\.h",
      TESTING, SYSTEM]),
    # An engine that is not there under the thread sanitizer.
    ("tests/keystore/engine/etcd/",
     [r"tests/(?:keystore|support)/.*", r"keystore/.*", r"absl/.*", r"etcdserverpb/.*", TESTING]),
    ("tests/", [r".*"]),
]  # fmt: skip

# Who opens an engine, or has it copied: nobody else in the service knows that there are several.
ENGINE_OPENERS = re.compile(
    r"service/(?:flags|server|(?:backup|transfer)_keeper|engine_checker|retirement_watch|front/(?:backup|transfer)_service|process/\w+)\.(?:cc|h)")
ENGINE_HEADERS = re.compile(
    r"keystore/engine/(?:open_any_engine|open_engine|engine|engine_check|backup|backup_values|transfer/\w+)\.h")

# --- Calls --------------------------------------------------------------------------------------

# The only files that ask the system for the time, for chance, or to be left alone for a while.
CLOCK = {"keystore/clock.cc"}
CTL = {"client/ctl/main.cc"}
CLIENT_ENVIRONMENT = {"client/src/system_environment.cc"}
MAIN = {"service/main.cc"}
EXAMPLES = {"client/quickstart/example.h"}
# Latency is measured against the machine's clock; nothing is asserted about it.
BENCH = {"tests/bench/clock.cc"}

# (what, how it is recognised, the files that may, what the others do instead)
BANNED_CALLS = [
    ("the wall clock",
     r"\b(?:system_clock|high_resolution_clock|utc_clock)::now\b|\babsl::Now\b|\bgettimeofday\b"
     r"|\bclock_gettime\b|\btime\s*\(\s*(?:nullptr|NULL|0)\s*\)",
     CLOCK | CTL | CLIENT_ENVIRONMENT,
     "take a Now, a Clock or a time as an argument"),
    ("the monotonic clock",
     r"\bsteady_clock::now\b",
     CLOCK | CLIENT_ENVIRONMENT | BENCH,
     "take a Now, a Clock or a time as an argument"),
    ("randomness",
     r"\bs?rand\s*\(|\brandom_device\b|\bgetrandom\b|\bRAND_bytes\b|\babsl::BitGen\b",
     CTL | CLIENT_ENVIRONMENT | MAIN,
     "take the random value, or what makes it, as an argument"),
    ("sleeping",
     r"\bsleep_for\b|\bsleep_until\b|\bu?sleep\s*\(|\bnanosleep\b|\babsl::SleepFor\b",
     CLIENT_ENVIRONMENT,
     "wait for an event, or move a ManualClock"),
    ("standard output",
     r"\bstd::(?:cout|cerr|clog)\b|(?<![\w:.])(?:std::)?(?:v?printf|puts|putchar)\s*\(",
     MAIN | CTL | EXAMPLES,
     "write to the stream or the log that you were given"),
    ("the environment",
     r"\b(?:secure_)?getenv\b",
     MAIN | CTL,
     "take the setting as an argument"),
    ("exceptions of our own",
     r"\bthrow\b",
     set(),
     "return an outcome or a status"),
]  # fmt: skip

# Tests print and read their environment; everything else holds for them, too.
TESTS_MAY = {"standard output", "the environment"}

# --- Words --------------------------------------------------------------------------------------

DISABLED_TEST = re.compile(
    r"\bDISABLED_\w|\bGTEST_SKIP\b|\bDISABLED\s+(?:TRUE|ON|1)\b|@unittest\.skip|\bskipTest\b"
)
LEFT_OPEN = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
# Where something was written says nothing about the product.
MACHINE_PATHS = re.compile(r"(?<![\w.$}])/(?:work|root|home/\w+)/")

FILE_NAME = re.compile(r"[a-z0-9_.-]+")
OTHER_FILE_NAMES = {
    "CMakeLists.txt", "CMakePresets.json", "Containerfile", "Dockerfile", "LICENSE", "README.md",
    "RUNBOOK.md", "Dockerfile.dockerignore",
    "SECURITY.md",
    # Java wants the name of the class.
    "LifeCycle.java",
}  # fmt: skip
