// A server that is wrong on purpose: the service as it is, on a disk that keeps the log in memory
// and says that it is synced. For controls; takes --data_dir, --port_file, --config and
// --watermark_ms (as the engine's watermark_interval; 0 makes it forget that it forgets), and
// leaves all other flags.
#include <rocksdb/file_system.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "keystore/clock.h"
#include "keystore/engine/rocksdb_engine.h"
#include "service/config.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/server.h"

namespace idempotency::proof {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

class ForgetfulFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  using FSWritableFileOwnerWrapper::FSWritableFileOwnerWrapper;
  IOStatus Append(const rocksdb::Slice& data, const IOOptions&, IODebugContext*) override {
    remembered_.append(data.data(), data.size());
    return IOStatus::OK();
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo&, IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus Sync(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Fsync(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = FSWritableFileOwnerWrapper::Append(remembered_, options, debug);
    return status.ok() ? FSWritableFileOwnerWrapper::Close(options, debug) : status;
  }

 private:
  std::string remembered_;
};

class ForgetfulFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  ForgetfulFileSystem() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "ForgetfulFileSystem"; }
  IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* debug) override {
    IOStatus status = FileSystemWrapper::NewWritableFile(path, options, file, debug);
    if (status.ok() && absl::EndsWith(path, ".log")) {
      *file = std::make_unique<ForgetfulFile>(std::move(*file));
    }
    return status;
  }
};

std::string FlagOf(int argc, char** argv, const std::string& name) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind(name + "=", 0) == 0) return argument.substr(name.size() + 1);
  }
  return {};
}

int Main(int argc, char** argv) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  service::Log log(service::Log::Options{service::LogLevel::kWarning});
  service::CountingMetrics metrics;
  keystore::GuardedClock clock{core::Time{}};
  auto config = service::ConfigHolder::Open(FlagOf(argc, argv, "--config"));
  const std::unique_ptr<rocksdb::Env> env =
      rocksdb::NewCompositeEnv(std::make_shared<ForgetfulFileSystem>());
  keystore::RocksDbOptions options;
  options.engine.data_dir = FlagOf(argc, argv, "--data_dir");
  options.engine.ballast_bytes = 0;
  options.engine.now = [&clock] { return clock.Read(); };
  options.env = env.get();
  const std::string watermark_ms = FlagOf(argc, argv, "--watermark_ms");
  if (!watermark_ms.empty()) {
    options.watermark_interval = core::Duration{std::atoll(watermark_ms.c_str())};
  }
  auto engine = keystore::RocksDbEngine::Open(std::move(options));
  if (!config.ok() || !engine.ok()) {
    std::fprintf(stderr, "%s\n", engine.status().ToString().c_str());
    return 1;
  }
  service::ServerParts parts;
  parts.engine = *std::move(engine);
  parts.clock = &clock;
  parts.config = config->get();
  parts.log = &log;
  parts.metrics = &metrics;
  auto server = service::Server::Start(std::move(parts), {.listen = "127.0.0.1:0"});
  if (!server.ok()) return 1;
  std::ofstream(FlagOf(argc, argv, "--port_file")) << (*server)->port() << "\n";
  int signal = 0;
  sigwait(&signals, &signal);
  return 0;
}

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) { return idempotency::proof::Main(argc, argv); }
