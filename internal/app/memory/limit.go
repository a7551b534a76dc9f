package memory

import (
	"runtime/debug"
	"strconv"
)

// memoryLimit is the environment variable with the bytes of memory that the program's container may use. The chart sets it.
const memoryLimit = "FAIRWAY_MEMORY_LIMIT"

// headroom is the collector's memory limit, as a percentage of the container's memory. The rest is for memory that the collector does not
// count: stacks of the system, mapped files, and allocations while it works.
const headroom = 90

// Limit sets the collector's memory limit to most of the container's memory, unless GOMEMLIMIT is set. It returns a function that
// restores the limit before.
func Limit(environ func(string) string) (restore func()) {
	bytes, err := strconv.ParseInt(environ(memoryLimit), 10, 64)
	if err != nil || bytes <= 0 || environ("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetMemoryLimit(bytes / 100 * headroom)
	return func() { debug.SetMemoryLimit(before) }
}
