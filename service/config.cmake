# The configuration: its schema, its reader and its rules. Included from CMakeLists.txt here.
add_library(idempotency_config STATIC
  access_rules.cc
  config.cc
  config_access.cc
  config_identity.cc
  config_problems.cc
  config_rules.cc
  config_section.cc
  config_yaml.cc
  duration_text.cc
  name_pattern.cc
  namespace_rows.cc
  presets.cc
  yaml_tree.cc)
target_link_libraries(idempotency_config
  PUBLIC idempotency_options idempotency::core idempotency::protos
    absl::statusor absl::synchronization
  PRIVATE idempotency::config_protos absl::strings yaml-cpp)
add_library(idempotency::config ALIAS idempotency_config)
