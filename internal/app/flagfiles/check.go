// Package flagfiles checks the files that flags name before a control plane starts with them.
package flagfiles

import (
	"errors"
	"fmt"
	"io/fs"

	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/mesh"
)

// Check reads the files that a flag names by themselves, as the file source will. At the start there is no last good version
// to keep, so a mistake in a file is an error of the flags. Later it is a problem, and the last good version stays in force. If a
// file does not exist, the defaults apply until it does: it is a default path, or a file that was removed after the start.
func Check(meshConfig, networks string, decoder *config.Decoder) error {
	var errs []error
	for _, f := range []struct {
		flag, path string
		decode     func(config.Document) (*config.Object, []mesh.Problem)
	}{{"--meshConfig", meshConfig, decoder.DecodeMeshConfig}, {"--networksConfig", networks, decoder.DecodeMeshNetworks}} {
		if f.path == "" {
			continue
		}
		text, _, err := disk.Read(disk.OS, f.path, disk.MaxFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.flag, err))
			continue
		}
		for _, doc := range config.Split(f.path, text) {
			_, problems := f.decode(doc)
			errs = append(errs, mistakes(f.flag, problems)...)
		}
	}
	return errors.Join(errs...)
}

// mistakes are the problems that keep a file from being in force, each with its place.
func mistakes(flag string, problems []mesh.Problem) []error {
	var errs []error
	for _, p := range problems {
		if p.Severity != mesh.Error {
			continue
		}
		line := p.Line
		if line == 0 {
			line = p.Object.Line
		}
		text := fmt.Sprintf("%s:%d: ", p.Object.File, line)
		if p.Field != "" {
			text += p.Field + ": "
		}
		text += p.Message
		if p.Fix != "" {
			text += "; " + p.Fix
		}
		errs = append(errs, fmt.Errorf("%s: %s", flag, text))
	}
	return errs
}
