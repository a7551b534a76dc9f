package agent

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// validation takes a tenth of a second; a binary that is no Envoy may sit there for ever.
const validationTimeout = 30 * time.Second

// validate has Envoy read the bootstrap without acting on it. An Envoy that fails later, in the middle of a hot restart, blocks
// those after it; so no epoch starts with a file that was not read once.
func validate(ctx context.Context, o Options, file string) error {
	ctx, cancel := context.WithTimeout(ctx, validationTimeout)
	defer cancel()
	o.LogLevel, o.ComponentLogLevel = "error", ""
	args := append([]string{"--mode", "validate"}, o.arguments(file)...)
	cmd := exec.CommandContext(ctx, o.Envoy, append(args, "--disable-hot-restart")...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("validate the bootstrap: %w", ctx.Err())
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s: is it an Envoy?", validationTimeout)
	}
	return usage("%s refuses its bootstrap: %w\n%s\nto see more: %s --mode validate -c %s", o.Envoy, err, indented(lastLines(string(out), 8)), o.Envoy, file)
}

func lastLines(s string, n int) []string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[max(0, len(lines)-n):]
}

func indented(lines []string) string { return "  " + strings.Join(lines, "\n  ") }
