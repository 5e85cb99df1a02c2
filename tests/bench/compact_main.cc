// idempotency_compact: compacts a store that no server has open, and says what it then takes. The
// service has no such command: RocksDB compacts by itself, in its own time.
#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "keystore/core/time.h"
#include "keystore/engine/rocksdb_engine.h"

namespace idempotency::bench {
namespace {

using keystore::RocksDbEngine;
using keystore::RocksDbOptions;

int Main(int argc, char** argv) {
  std::string data_dir;
  CLI::App app(
      "Compacts the store in --data-dir, which no server may have open, and prints the bytes of\n"
      "its SST files and RocksDB's estimate of its keys as JSON. Nothing expires in it.",
      "idempotency_compact");
  app.add_option("--data-dir", data_dir, "--data_dir of the server")->required();
  CLI11_PARSE(app, argc, argv);
  RocksDbOptions options;
  options.engine.data_dir = data_dir;
  // At the beginning of time, nothing has ended.
  options.engine.now = [] { return core::At(core::Time{}); };
  auto engine = RocksDbEngine::Open(std::move(options));
  if (!engine.ok()) {
    std::cerr << "idempotency_compact: " << engine.status().ToString() << std::endl;
    return 1;
  }
  if (const absl::Status status = (*engine)->Compact(); !status.ok()) {
    std::cerr << "idempotency_compact: " << status.ToString() << std::endl;
    return 1;
  }
  const keystore::StoreStats stats = (*engine)->stats();
  std::cout << "{\"table_bytes\": " << stats.table_bytes
            << ", \"estimated_keys\": " << stats.estimated_keys << "}" << std::endl;
  return 0;
}

}  // namespace
}  // namespace idempotency::bench

int main(int argc, char** argv) { return idempotency::bench::Main(argc, argv); }
