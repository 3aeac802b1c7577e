package registry

// Dissectors is what Wireshark lacks to show the protocols of systems: chunks of Lua that
// register dissectors, each in a block of its own (do ... end), since they are loaded as
// one file. A package with a wire format adds its own in an init function.
var Dissectors = New[string]("dissector")
