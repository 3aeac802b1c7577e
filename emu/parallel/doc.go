// Package parallel runs several engines side by side, in step: conservative parallel
// simulation. Each node of a network is a logical process with its own engine. A shard has
// some of the processes, and a worker, which is a thread, runs one shard or more. It knows
// links, which carry packets between processes, and nothing of what is at their ends.
package parallel
