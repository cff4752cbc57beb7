# The Debian package, for the CPU. It depends on the libraries that dpkg-shlibdeps finds. There is none with the CUDA backend: both
# would have the same settings in /etc/baton, and purging the one would delete them, and the models, of the other.
set(BATON_MAINTAINER "Baton's developers <baton@localhost>" CACHE STRING "Who maintains the Debian package: Name <address>")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME baton)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT ${BATON_MAINTAINER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "server of large language models with separate prefill and decode")
set(CPACK_PACKAGE_DESCRIPTION
"Baton serves large language models with the two phases of inference on
separate workers: a router sends each prompt to a prefill worker, which hands
its KV cache over gRPC to a decode worker, which generates the answer.

This package has the command baton, the three servers, which compute on the
CPU, and units for systemd, none of which is started or enabled.")
set(CPACK_PACKAGE_FILE_NAME baton)

# Below /usr, but for what has an absolute name.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_CMAKE_PROJECTS "")
foreach(COMPONENT programs documents services debian)
  list(APPEND CPACK_INSTALL_CMAKE_PROJECTS ${CMAKE_BINARY_DIR} baton ${COMPONENT} /)
endforeach()
set(CPACK_STRIP_FILES ON)
# Whatever the umask of who packs.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)  # scripts/build_package.sh --release
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# systemd-sysusers makes the user. Where systemd does not run, such as in an image, the small one is enough.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "systemd-standalone-sysusers | systemd | systemd-sysusers")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "haproxy, logrotate")
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_THREADS 0)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "")
foreach(CONTROL conffiles postinst postrm prerm)
  list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_SOURCE_DIR}/debian/${CONTROL})
endforeach()

include(CPack)
