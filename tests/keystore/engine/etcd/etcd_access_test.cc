// Who may speak to etcd: certificates, and users with passwords.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/etcd/etcd_fixture.h"
#include "tests/keystore/engine/records.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_authority.h"

namespace idempotency::keystore {
namespace {

using testing::TestAuthority;
using testing::TestCertificate;

std::string WriteFile(const TempDirectory& directory, const std::string& name,
                      const std::string& bytes) {
  std::ofstream(directory.file(name), std::ios::binary) << bytes;
  return directory.file(name);
}

bool IsServed(EtcdFixture& fixture) {
  auto engine = EtcdEngine::Open(fixture.options, fixture.etcd);
  return engine.ok() && Read(**engine, {PayKey("a")}).ok();
}

TEST(EtcdAccessTest, SpeaksTlsAndShowsItsCertificate) {
  const TempDirectory files;
  const TestAuthority authority("authority");
  const TestAuthority stranger("stranger");
  const TestCertificate server = authority.Issue({.names = "DNS:localhost,IP:127.0.0.1"});
  const TestCertificate client = authority.Issue({.common_name = "idempotencyd"});
  const std::string ca = WriteFile(files, "ca.crt", authority.certificate());
  EtcdCluster etcd(1, {"--cert-file=" + WriteFile(files, "server.crt", server.certificate),
                       "--key-file=" + WriteFile(files, "server.key", server.private_key),
                       "--trusted-ca-file=" + ca, "--client-cert-auth"});
  EtcdFixture fixture(&etcd);
  fixture.etcd.ca_file = ca;
  fixture.etcd.certificate_file = WriteFile(files, "client.crt", client.certificate);
  fixture.etcd.key_file = WriteFile(files, "client.key", client.private_key);
  const auto engine = fixture.Open();
  ASSERT_NE(engine, nullptr);
  Store(*engine, PayKey("a"), PendingRecord());

  const EtcdOptions right = fixture.etcd;
  fixture.etcd.ca_file = WriteFile(files, "stranger.crt", stranger.certificate());
  EXPECT_FALSE(IsServed(fixture)) << "etcd shows a certificate of somebody else's";
  fixture.etcd = right;
  fixture.etcd.certificate_file.clear();
  fixture.etcd.key_file.clear();
  EXPECT_FALSE(IsServed(fixture)) << "we show none";
}

TEST(EtcdAccessTest, SaysWhoItIsAndAgainWhenEtcdHasForgotten) {
  const TempDirectory files;
  EtcdCluster etcd(1);
  EtcdFixture fixture(&etcd);
  // There before anybody is asked for.
  fixture.Open().reset();
  const std::string at = etcd.member(0).endpoint();
  const std::vector<std::pair<std::string, std::string>> steps = {
      {"/v3/auth/user/add", R"({"name":"root","password":"of root"})"},
      {"/v3/auth/user/grant", R"({"user":"root","role":"root"})"},
      {"/v3/auth/role/add", R"({"name":"ours"})"},
      // From "test/" to "test0".
      {"/v3/auth/role/grant",
       R"({"name":"ours","perm":{"permType":"READWRITE","key":"dGVzdC8=","range_end":"dGVzdDA="}})"},
      {"/v3/auth/user/add", R"({"name":"idempotencyd","password":"secret"})"},
      {"/v3/auth/user/grant", R"({"user":"idempotencyd","role":"ours"})"},
      {"/v3/auth/enable", "{}"}};
  for (const auto& [path, json] : steps) ASSERT_TRUE(EtcdPost(at, path, json)) << path;

  EXPECT_FALSE(IsServed(fixture)) << "nobody has said who it is";
  fixture.etcd.user = "idempotencyd";
  fixture.etcd.password_file = WriteFile(files, "password", "wrong\n");
  EXPECT_FALSE(IsServed(fixture));
  fixture.etcd.password_file = WriteFile(files, "password", "secret\n");
  const auto engine = fixture.Open();
  ASSERT_NE(engine, nullptr);
  Store(*engine, PayKey("a"), PendingRecord());

  // It keeps tokens in memory.
  etcd.member(0).Kill();
  etcd.member(0).Start();
  const absl::StatusOr<ReadResult> read = ReadWhenAnswered(*engine, PayKey("a"));
  EXPECT_TRUE(read.ok()) << read.status();
}

}  // namespace
}  // namespace idempotency::keystore
