# What `cmake --install` leaves for other projects: find_package(locksley) gives
#   locksley::plugin   headers for plugins; nothing to link
#   locksley::core     the scheduler as a library, with its headers
# The programs' own rules are beside their targets. Included by the root, after the folders.
include(CMakePackageConfigHelpers)
set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/locksley)

install(TARGETS locksley_options locksley_core locksley_plugin EXPORT locksley COMPONENT development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY core/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/locksley/core COMPONENT development
  FILES_MATCHING PATTERN "*.h")
install(EXPORT locksley NAMESPACE locksley:: FILE locksley-targets.cmake DESTINATION ${config_folder} COMPONENT development)

configure_package_config_file(deploy/locksley-config.cmake.in locksley-config.cmake INSTALL_DESTINATION ${config_folder})
# While the first number is 0, the second counts changes that break users of locksley::core. The ABI of plugins has a number of its own.
write_basic_package_version_file(locksley-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/locksley-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/locksley-config-version.cmake
  DESTINATION ${config_folder} COMPONENT development)
