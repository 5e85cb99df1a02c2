# The configuration: its schema, its reader and its rules. Included from CMakeLists.txt here.
