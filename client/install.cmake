# What is installed: the protos and the client library, found with find_package(idempotency) or
# pkg-config, and what other languages read. The service is not for linking.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

target_compile_features(idempotency_client PUBLIC cxx_std_20)
set_target_properties(idempotency_client PROPERTIES EXPORT_NAME client)
set_target_properties(idempotency_testing PROPERTIES EXPORT_NAME testing)
set_target_properties(idempotency_protos PROPERTIES EXPORT_NAME protos)
set_target_properties(idempotency_error_details PROPERTIES EXPORT_NAME error_details)

install(TARGETS idempotency_client idempotency_testing EXPORT idempotency_targets FILE_SET HEADERS)
install(TARGETS idempotency_protos idempotency_error_details EXPORT idempotency_targets)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/idempotency)
install(EXPORT idempotency_targets NAMESPACE idempotency:: DESTINATION ${package_dir}
  FILE idempotency-targets.cmake)
configure_package_config_file(
  ${CMAKE_CURRENT_SOURCE_DIR}/package/idempotency-config.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/idempotency-config.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0 every minor version may change what is compiled against.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/idempotency-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/idempotency-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/idempotency-config-version.cmake
  DESTINATION ${package_dir})

# The way up from where the pkg-config file lies to the prefix, so that the tree can be moved.
string(REGEX REPLACE "[^/]+" ".." IDEMPOTENCY_PREFIX_FROM_PC ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
configure_file(${CMAKE_CURRENT_SOURCE_DIR}/package/idempotency.pc.in
  ${CMAKE_CURRENT_BINARY_DIR}/idempotency.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/idempotency.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(DIRECTORY ${PROJECT_BINARY_DIR}/protos/idempotency/v1
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/idempotency FILES_MATCHING PATTERN "*.pb.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/protos/idempotency/v1
  DESTINATION ${CMAKE_INSTALL_DATADIR}/idempotency/protos/idempotency FILES_MATCHING PATTERN "*.proto")
install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/contracts
  DESTINATION ${CMAKE_INSTALL_DATADIR}/idempotency FILES_MATCHING PATTERN "*.json")
