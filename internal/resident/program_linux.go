package resident

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// dropProgram removes the pages of this program's file from the process's memory, except those that were written to.
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
