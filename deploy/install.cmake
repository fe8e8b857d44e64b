# What `cmake --install` gives to other projects. Components:
#   core     headers, the library of the scheduler, and the CMake package: find_package(locksley) gives
#              locksley::plugin   headers for plugins; nothing to link
#              locksley::core     the scheduler as a library (core/EMBEDDING.md)
#   client   find_package(locksley COMPONENTS client), which looks for Asio and OpenSSL, too, gives
#              locksley::client   the client library, with its headers (deploy/package.cmake)
# Included by the root, after core.
include(CMakePackageConfigHelpers)
set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/locksley)

install(TARGETS locksley_options locksley_core locksley_plugin EXPORT locksley COMPONENT core
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY core/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/locksley/core COMPONENT core
  FILES_MATCHING PATTERN "*.h")
install(EXPORT locksley NAMESPACE locksley:: FILE locksley-targets.cmake DESTINATION ${config_folder} COMPONENT core)

configure_package_config_file(deploy/locksley-config.cmake.in locksley-config.cmake INSTALL_DESTINATION ${config_folder})
# While the first number is 0, the second counts changes that break users of locksley::core. The ABI of plugins has a number of its own.
write_basic_package_version_file(locksley-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/locksley-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/locksley-config-version.cmake
  DESTINATION ${config_folder} COMPONENT core)
