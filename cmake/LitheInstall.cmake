# `cmake --install`, and find_package(lithe) for programs that embed the engine.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
get_property(libraries GLOBAL PROPERTY LITHE_LIBRARIES)
install(TARGETS ${libraries} EXPORT lithe-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/lithe)
install(DIRECTORY include/lithe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS lithe RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT lithe-targets NAMESPACE lithe:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lithe)
configure_package_config_file(cmake/lithe-config.cmake.in lithe-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lithe)
write_basic_package_version_file(lithe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lithe-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/lithe-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lithe)
