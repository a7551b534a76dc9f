package proxy

import (
	"errors"

	"fairway/internal/agent/epoch"
	"fairway/internal/agent/settings"
)

// ExitCode returns the code that a program exits with after an error of package settings or of Run: Envoy's own code if that was not 0.
func ExitCode(err error) int {
	var exit *epoch.ExitError
	var bad *settings.UsageError
	var plan *epoch.PlanError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &bad), errors.As(err, &plan):
		return 2
	case errors.As(err, &exit) && exit.Code != 0:
		return exit.Code
	}
	return 1
}
