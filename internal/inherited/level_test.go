package inherited

import (
	"log/slog"
	"strings"
	"testing"
)

// TestLogLevels: a bare level, and Istio's lists of scope:level. In a list only the scopes that mean everything count.
func TestLogLevels(t *testing.T) {
	const none = slog.LevelError + 4
	for _, c := range []struct {
		text string
		want slog.Level
	}{
		{"debug", slog.LevelDebug}, {"info", slog.LevelInfo}, {"warn", slog.LevelWarn}, {"warning", slog.LevelWarn},
		{"error", slog.LevelError},
		{"none", none}, {"fatal", none}, {"DEBUG", slog.LevelDebug},
		{"default:debug", slog.LevelDebug}, {"all:error", slog.LevelError},
		{"ads:debug", slog.LevelInfo}, {"ads:debug,default:warn", slog.LevelWarn}, {"default:error,ads:debug", slog.LevelError},
	} {
		if got, err := Level(c.text); err != nil || got != c.want {
			t.Errorf("%q: %v %v, want %v", c.text, got, err, c.want)
		}
	}
	for _, bad := range []string{"loud", "", "default:", "info,", ":", "ads:loud"} {
		if _, err := Level(bad); err == nil || !strings.Contains(err.Error(), "--log_output_level") {
			t.Errorf("%q: error %v, want one that names the flag", bad, err)
		}
	}
}
