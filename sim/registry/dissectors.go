package registry

// Dissectors holds the Wireshark dissectors for the protocols of systems: chunks of Lua
// that register dissectors, each in its own block (do ... end), since they are loaded as
// one file. A package with a wire format adds its own in an init function.
var Dissectors = New[string]("dissector")
