package agent

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What the agent takes is taken once for each workload of a machine. gcPercent trades a little of the processor, of which an agent needs next to none, for memory.
const gcPercent = 50

// The first look is when the start is over; later ones find what a burst of changes has left.
const (
	firstSlimming = 3 * time.Second
	slimming      = time.Minute
)

// slim gives back memory that was needed for a while: the heap's, and pages of the program itself, most of which only its start reads. They come back from the
// system's cache where they are needed again.
func (a *agent) slim(ctx context.Context, up func()) error {
	up()
	timer := time.NewTimer(firstSlimming)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			debug.FreeOSMemory()
			if err := dropProgram(); err != nil {
				a.log.Debug("the program's pages stay in memory", "error", err)
			}
			timer.Reset(slimming)
		}
	}
}

// dropProgram takes the pages of this program's file out of the process's memory, but for those that were written to.
func dropProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer file.Close()
	var from, to uintptr // of the area that the lines below are about; zero: one that stays
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) >= 5 && strings.Contains(words[0], "-"):
			from, to = 0, 0
			if len(words) >= 6 && words[1][1] == '-' && strings.HasSuffix(lines.Text(), " "+program) {
				if _, err := fmt.Sscanf(words[0], "%x-%x", &from, &to); err != nil {
					return err
				}
			}
		case from != 0 && words[0] == "Anonymous:" && words[1] == "0":
			if _, _, failed := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); failed != 0 {
				return failed
			}
		}
	}
	return lines.Err()
}
