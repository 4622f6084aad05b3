lithe_test(template_parity_test SOURCES template_parity_test.cpp DEPS lithe::template)
