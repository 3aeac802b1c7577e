package testlab

import "fmt"

// TwoHosts is two hosts at a switch.
const TwoHosts = `
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 100Mbps}
    - {endpoints: ["h2:eth0", "s1:2"], rate: 100Mbps}
`

// TwoNICs is two hosts with NICs at a switch.
const TwoNICs = `
topology:
  kinds: {host: {nic: roce}}
  nodes: {h1: {kind: host, address: 10.0.0.1/24}, h2: {kind: host, address: 10.0.0.2/24}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 5Gbps, delay: 5us}
    - {endpoints: ["h2:eth0", "s1:2"], rate: 5Gbps, delay: 5us}
`

// TwoHostsRunning is two hosts at one cable that run commands of the lab file.
func TwoHostsRunning(exec1, exec2 string) string {
	return fmt.Sprintf(`
topology:
  nodes:
    h1: {kind: host, exec: [%s]}
    h2: {kind: host, exec: [%s]}
  links:
    - {endpoints: ["h1:eth0", "h2:eth0"]}
`, exec1, exec2)
}
