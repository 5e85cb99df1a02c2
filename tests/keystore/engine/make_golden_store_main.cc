// Makes a golden store of this version (golden_stores/README.md), or the worn one of tests/vectors.
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/keystore/engine/golden_store.h"

int main(int argc, char** argv) {
  using namespace idempotency::keystore;  // NOLINT: a program of one function
  const std::string kind = argc == 3 ? argv[1] : "";
  if (kind != "plain" && kind != "sealed" && kind != "worn") return 2;
  const std::string directory = argv[2];
  RocksDbFixture fixture;
  fixture.options.engine.data_dir = directory + "/store";
  fixture.options.engine.ballast_bytes = 0;
  std::filesystem::create_directories(directory);
  if (kind == "worn") {
    MakeWornStore(fixture);
  } else {
    MakeGoldenStore(fixture, kind == "sealed");
  }
  if (fixture.Open() == nullptr) return 1;
  std::ofstream(directory + "/records.txt") << Describe(fixture.engine());
  fixture.Close();
  return 0;
}
