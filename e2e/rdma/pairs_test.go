package rdma

// rdmaPairs is the hosts of testlab.OnPairs with NICs, with two paths between the switches of each
// pair that have room for all of them.
const rdmaPairs = `
topology:
  kinds: {host: {nic: roce}}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 4, rate: 5Gbps, delay: 5us, uplink: {rate: 20Gbps}}}
`

// itself returns the name of a case that is its own name.
func itself(name string) string { return name }
