// Nothing of its own: this file carries the precompiled header of the gRPC tests.
