package proxy

import (
	"log/slog"
	"strings"
	"testing"

	"fairway/test/rig"
)

// TestUnknownFieldsAreLoggedOnce: those that were passed over before are not said again.
func TestUnknownFieldsAreLoggedOnce(t *testing.T) {
	unknown := []string{"PROXY_CONFIG: a", "PROXY_CONFIG: concurency (did you mean concurrency?)", "PROXY_CONFIG: c"}
	log := &rig.Log{}
	a := &agent{log: slog.New(slog.NewTextHandler(log, nil))}
	a.warnUnknown(nil, unknown[:2])
	a.warnUnknown(unknown[:2], unknown)
	if got := strings.Count(log.String(), "level=WARN"); got != 3 ||
		!strings.Contains(log.String(), "concurency (did you mean concurrency?)") {
		t.Errorf("%d warnings:\n%s", got, log)
	}
}
