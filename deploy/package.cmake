# What `cmake --install` leaves beside deploy/install.cmake, and Debian packages of it all. Components: `runtime` (programs, unit, manual pages,
# completions), `client` (the client library), and `debian` and `debian-dev`, which only packages have. The programs' own rules are beside their
# targets. Included by the root, after the folders.

# Apart from core, because of what it needs itself.
install(TARGETS locksley_asio locksley_proto locksley_client EXPORT locksley-client COMPONENT client
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY proto/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/locksley/proto COMPONENT client
  FILES_MATCHING PATTERN "*.h"
  PATTERN python EXCLUDE PATTERN node EXCLUDE)
install(EXPORT locksley-client NAMESPACE locksley:: FILE locksley-client-targets.cmake DESTINATION ${config_folder}
  COMPONENT client)

# locksley_compressed(file destination component): installs it as gzip makes it; Debian wants that of manual pages and changelogs.
function(locksley_compressed file destination component)
  get_filename_component(name ${file} NAME)
  set(compressed ${CMAKE_CURRENT_BINARY_DIR}/${name}.gz)
  if(NOT compressed IN_LIST LOCKSLEY_COMPRESSED)
    add_custom_command(OUTPUT ${compressed} DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file}
      COMMAND gzip -9nc ${CMAKE_CURRENT_SOURCE_DIR}/${file} > ${compressed})
    set(LOCKSLEY_COMPRESSED ${LOCKSLEY_COMPRESSED} ${compressed} PARENT_SCOPE)
  endif()
  install(FILES ${compressed} DESTINATION ${destination} COMPONENT ${component} ${ARGN})
endfunction()
set(LOCKSLEY_COMPRESSED "")
locksley_compressed(deploy/man/locksley.1 ${CMAKE_INSTALL_MANDIR}/man1 runtime)
locksley_compressed(deploy/man/locksley.yaml.5 ${CMAKE_INSTALL_MANDIR}/man5 runtime)
locksley_compressed(deploy/man/locksleyd.8 ${CMAKE_INSTALL_MANDIR}/man8 runtime)
locksley_compressed(deploy/package/changelog share/doc/locksley debian EXCLUDE_FROM_ALL)
locksley_compressed(deploy/package/changelog share/doc/locksley-dev debian-dev EXCLUDE_FROM_ALL)
locksley_compressed(deploy/CHANGELOG.md share/doc/locksley runtime)
add_custom_target(locksley_documents DEPENDS ${LOCKSLEY_COMPRESSED})
add_dependencies(locksleyd locksley_documents)

install(FILES deploy/systemd/locksleyd.service DESTINATION lib/systemd/system COMPONENT runtime)
set(completions deploy/completions/locksley)
install(FILES ${completions}.bash DESTINATION share/bash-completion/completions RENAME locksley COMPONENT runtime)
install(FILES ${completions}.bash DESTINATION share/bash-completion/completions RENAME locksleyd COMPONENT runtime)
install(FILES ${completions}.zsh DESTINATION share/zsh/vendor-completions RENAME _locksley COMPONENT runtime)
install(FILES ${completions}.fish DESTINATION share/fish/vendor_completions.d COMPONENT runtime)
install(FILES deploy/locksley.yaml DESTINATION share/doc/locksley/examples COMPONENT runtime)
install(DIRECTORY deploy/prometheus deploy/grafana DESTINATION share/doc/locksley/examples COMPONENT runtime)

# From /usr, where packages are installed: an absolute path would leave CPack's own folder.
install(FILES deploy/package/locksley.yaml DESTINATION ../etc/locksley COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES deploy/package/copyright DESTINATION share/doc/locksley COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES deploy/package/copyright DESTINATION share/doc/locksley-dev COMPONENT debian-dev EXCLUDE_FROM_ALL)

# deploy/package/README.md says how to call it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME locksley)
set(CPACK_PACKAGE_VENDOR "The authors of Locksley")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "daemon that runs batches of jobs, and is fair about it")
set(CPACK_PACKAGE_CONTACT "The authors of Locksley <locksley@packages.debian.org>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
# A package of what is built, and not of all that could be.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
set(CPACK_COMPONENTS_ALL runtime debian core client debian-dev)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENT_RUNTIME_GROUP main)
set(CPACK_COMPONENT_DEBIAN_GROUP main)
set(CPACK_COMPONENT_CORE_GROUP dev)
set(CPACK_COMPONENT_CLIENT_GROUP dev)
set(CPACK_COMPONENT_DEBIAN-DEV_GROUP dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_MAIN_PACKAGE_NAME locksley)
set(CPACK_DEBIAN_MAIN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_MAIN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_MAIN_PACKAGE_DEPENDS "adduser, procps")  # the unit reloads with /bin/kill
set(CPACK_DEBIAN_MAIN_PACKAGE_SUGGESTS "prometheus, redis-tools")
set(CPACK_DEBIAN_MAIN_DESCRIPTION "Clients hand it batches, of ten jobs or ten million, over the protocol of
Redis. Every batch that has work waiting gets worker time in proportion to
its weight, whatever its size, its arrival and how long its jobs take.
.
Any program is a handler, as a process for each job or as a worker that
takes job after job. What was accepted survives the end of the daemon.
Metrics are for Prometheus.")
set(maintainer_scripts ${CMAKE_CURRENT_SOURCE_DIR}/deploy/package)
set(CPACK_DEBIAN_MAIN_PACKAGE_CONTROL_EXTRA ${maintainer_scripts}/postinst ${maintainer_scripts}/prerm
  ${maintainer_scripts}/postrm ${maintainer_scripts}/conffiles)

set(CPACK_DEBIAN_DEV_PACKAGE_NAME locksley-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_DESCRIPTION "This package has what projects of others build with: by find_package(locksley)
CMake gives locksley::plugin, the headers that a plugin in C or C++ needs, and
locksley::core, the scheduler as a library; if asked for the component client,
locksley::client, the library of the client, which needs Asio and OpenSSL.")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "libasio-dev, libssl-dev")
include(CPack)
