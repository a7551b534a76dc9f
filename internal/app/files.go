package app

import (
	"errors"
	"fmt"
	"io/fs"

	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/mesh"
)

// checkFiles reads the files that a flag names by themselves as the file source will. At start there is no last good
// version to keep, so a mistake in one is a mistake in the flags; later it is a problem, and what was there stays in
// force. If a file does not exist, defaults hold until it does: a default path, or one that a flag named is gone since.
func checkFiles(opts Options, decoder *config.Decoder) error {
	var errs []error
	for _, f := range []struct {
		flag, path string
		decode     func(config.Document) (*config.Object, []mesh.Problem)
	}{{"--meshConfig", opts.MeshConfig, decoder.DecodeMeshConfig}, {"--networksConfig", opts.Networks, decoder.DecodeMeshNetworks}} {
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
