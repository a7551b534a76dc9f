package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"fairway/tools/release/archive"
	"fairway/tools/release/manual"
	"fairway/tools/release/pack"
	"fairway/tools/release/sbom"
)

// programs are all three.
var programs = []string{"pilot-discovery", "pilot-agent", "pilotctl"}

// release has the flags of the verb packages.
type release struct {
	options
	date                time.Time
	chart, files        string
	license, readme, at string // at: where manuals are made
}

func packages(ctx context.Context, args []string) error {
	o := flags("packages")
	chart := o.String("chart", "", "folder of the chart")
	files := o.String("files", "", "folder with units, settings and scripts of packages")
	license := o.String("license", "", "file with the license")
	readme := o.String("readme", "", "file with the first steps, for archives")
	if err := o.Parse(args); err != nil {
		return err
	}
	date, err := o.moment()
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := os.MkdirAll(*o.to, 0o755); err != nil {
		return err
	}
	r := release{o, date, *chart, *files, *license, *readme, scratch}
	for _, step := range []func(context.Context) error{r.manuals, r.packages, r.archives, r.chartArchive, r.bill, r.checksums} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// manuals asks the programs of this machine's own platform.
func (r release) manuals(ctx context.Context) error {
	own := filepath.Join(*r.programs, runtime.GOOS+"-"+runtime.GOARCH)
	for _, name := range programs {
		if err := manual.Write(ctx, manual.Program{Name: name, File: filepath.Join(own, name)}, *r.version, r.date, r.at); err != nil {
			return fmt.Errorf("manual of %s: %w; the programs of this machine have to be in %s", name, err, own)
		}
	}
	return nil
}

// platforms returns the folders of programs, as linux-amd64.
func (r release) platforms() ([]string, error) {
	entries, err := os.ReadDir(*r.programs)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no programs in %s", *r.programs)
	}
	return out, nil
}

func (r release) packages(context.Context) error {
	platforms, err := r.platforms()
	if err != nil {
		return err
	}
	s := pack.Source{
		Programs: *r.programs, Files: r.files, Manual: r.at, License: r.license, Version: *r.version, Date: r.date,
	}
	for _, platform := range platforms {
		arch, linux := strings.CutPrefix(platform, "linux-")
		if !linux {
			continue
		}
		for _, k := range pack.Kinds {
			for _, format := range pack.Formats {
				name, err := s.Write(k, format, arch, *r.to)
				if err != nil {
					return err
				}
				fmt.Println(filepath.Join(*r.to, name))
			}
		}
	}
	return nil
}

// archives writes the programs of each platform, with manuals and completions.
func (r release) archives(context.Context) error {
	platforms, err := r.platforms()
	if err != nil {
		return err
	}
	for _, platform := range platforms {
		name := "fairway-" + *r.version + "-" + platform
		files := archive.Files{name + "/LICENSE": r.license, name + "/README.md": r.readme}
		if err := files.Folder(name+"/bin", filepath.Join(*r.programs, platform)); err != nil {
			return err
		}
		to := filepath.Join(*r.to, name)
		if strings.HasPrefix(platform, "windows-") {
			to, err = to+".zip", files.Zip(to+".zip", r.date)
		} else if err = files.Folder(name, r.at); err == nil {
			to, err = to+".tar.gz", files.Tar(to+".tar.gz", r.date)
		}
		if err != nil {
			return err
		}
		fmt.Println(to)
	}
	return nil
}

var chartLine = regexp.MustCompile(`(?m)^(name|version): ([A-Za-z0-9.+-]+)$`)

// chartArchive writes the chart as `helm package` does.
func (r release) chartArchive(context.Context) error {
	text, err := os.ReadFile(filepath.Join(r.chart, "Chart.yaml"))
	if err != nil {
		return err
	}
	words := map[string]string{}
	for _, m := range chartLine.FindAllStringSubmatch(string(text), -1) {
		words[m[1]] = m[2]
	}
	if words["name"] == "" || words["version"] == "" {
		return errors.New("Chart.yaml has no name and version")
	}
	if _, err := os.Stat(filepath.Join(r.chart, "crds", "istio.gen.yaml")); err != nil {
		return fmt.Errorf("the chart has no CRDs: %w; run make schemas", err)
	}
	files := archive.Files{}
	if err := files.Folder(words["name"], r.chart); err != nil {
		return err
	}
	to := filepath.Join(*r.to, words["name"]+"-"+words["version"]+".tgz")
	fmt.Println(to)
	return files.Tar(to, r.date)
}

// bill writes the bill of materials of all programs.
func (r release) bill(context.Context) error {
	platforms, err := r.platforms()
	if err != nil {
		return err
	}
	var all []sbom.Program
	for _, platform := range platforms {
		found, err := os.ReadDir(filepath.Join(*r.programs, platform))
		if err != nil {
			return err
		}
		for _, e := range found {
			all = append(all, sbom.Program{Name: platform + "/" + e.Name(), File: filepath.Join(*r.programs, platform, e.Name())})
		}
	}
	var b bytes.Buffer
	if err := sbom.Write(&b, sbom.Release{Version: *r.version, Commit: *r.commit, Date: r.date}, all); err != nil {
		return err
	}
	to := filepath.Join(*r.to, "fairway-"+*r.version+".spdx.json")
	fmt.Println(to)
	return os.WriteFile(to, b.Bytes(), 0o644)
}

// sums is the file of checksums, as sha256sum reads it.
const sums = "SHA256SUMS"

func (r release) checksums(context.Context) error {
	entries, err := os.ReadDir(*r.to)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		if e.IsDir() || e.Name() == sums {
			continue
		}
		sum, err := sbom.Sum(filepath.Join(*r.to, e.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, sum+"  "+e.Name()+"\n")
	}
	slices.Sort(lines)
	to := filepath.Join(*r.to, sums)
	fmt.Println(to)
	return os.WriteFile(to, []byte(strings.Join(lines, "")), 0o644)
}
