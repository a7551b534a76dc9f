package inherited

import (
	"fmt"
	"log/slog"
	"strings"
)

// Level reads the value of --log_output_level: a bare level, or Istio's form "scope:level,scope:level". In a list the scope
// "default" or "all" decides.
func Level(s string) (slog.Level, error) {
	level := slog.LevelInfo
	for _, part := range strings.Split(s, ",") {
		scope, name, scoped := strings.Cut(part, ":")
		if !scoped {
			scope, name = "default", part
		}
		var l slog.Level
		switch strings.ToLower(name) {
		case "none", "fatal":
			l = slog.LevelError + 4
		case "warning":
			l = slog.LevelWarn
		default:
			if err := l.UnmarshalText([]byte(name)); err != nil {
				return level, fmt.Errorf("--log_output_level: %q is not one of debug, info, warn, error, none", name)
			}
		}
		if scope == "default" || scope == "all" {
			level = l
		}
	}
	return level, nil
}
