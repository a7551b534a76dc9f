// Package pack makes packages for Debian and Fedora, and distributions that are made of these. Kinds lists them; their units, settings and
// scripts are in files. Start at Write.
package pack

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// Kind is a package, which has the name of its program.
type Kind struct {
	Program string
	About   string
	Unit    bool // a service with a user of its own
	Depends []string
	Suggest []string
	Config  []string // files of files/<program> that users edit, in /etc/fairway
	Folders []string // of /etc/fairway
}

// Kinds are all packages.
var Kinds = []Kind{
	{
		Program: "pilot-discovery", Unit: true, Config: []string{"pilot-discovery.env", "mesh.yaml"}, Folders: []string{"rules"},
		About:   "Control plane of a service mesh: reads rules and services, and configures every Envoy of the mesh",
		Depends: []string{"ca-certificates"},
	},
	{
		Program: "pilot-agent", Unit: true, Suggest: []string{"envoy"},
		About: "Runs Envoy beside a workload of a machine, and gets its certificates from the control plane",
	},
	{
		Program: "pilotctl",
		About:   "Command line of a service mesh: errors in rules, effects of a change before it is made, the way of a request",
	},
}

// Source names the parts of packages.
type Source struct {
	Programs string // folder with linux-<architecture>/<program>
	Files    string // folder with units, settings and scripts, a folder for each program
	Manual   string // folder that package manual wrote
	License  string
	Version  string
	Date     time.Time
}

// Formats are the kinds of package files.
var Formats = []string{"deb", "rpm"}

// Write writes a package of a format to a folder, and returns its name.
func (s Source) Write(k Kind, format, arch, to string) (string, error) {
	contents, err := s.contents(k, format, arch)
	if err != nil {
		return "", err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: k.Program, Arch: arch, Platform: "linux", Version: Version(s.Version), VersionSchema: "none",
		Section: "net", Priority: "optional",
		Maintainer: "Fairway <fairway@fairway.invalid>", Description: k.About, Vendor: "Fairway", License: "Apache-2.0", MTime: s.Date,
		DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Contents: contents, Depends: k.Depends, Suggests: k.Suggest, RPM: nfpm.RPM{BuildHost: "fairway", Summary: k.About},
			Deb: nfpm.Deb{Compression: "gzip"},
		},
	})
	if k.Unit {
		at := func(name string) string { return filepath.Join(s.Files, k.Program, name) }
		info.Scripts = nfpm.Scripts{PostInstall: at("postinst.sh"), PreRemove: at("prerm.sh"), PostRemove: at("postrm.sh")}
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return "", err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return "", fmt.Errorf("%s: %w", k.Program, err)
	}
	name := packager.ConventionalFileName(info)
	f, err := os.Create(filepath.Join(to, name))
	if err != nil {
		return "", err
	}
	err = packager.Package(info, f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return name, nil
}

// zshFolder is where each format's distributions look for zsh's completions.
var zshFolder = map[string]string{"deb": "vendor-completions", "rpm": "site-functions"}

func (s Source) contents(k Kind, format, arch string) (files.Contents, error) {
	var out files.Contents
	add := func(from, to, kind string, mode os.FileMode) {
		out = append(out, &files.Content{
			Source: from, Destination: to, Type: kind,
			FileInfo: &files.ContentFileInfo{Mode: mode, MTime: s.Date, Owner: "root", Group: "root"},
		})
	}
	file := func(from, to string) { add(from, to, files.TypeFile, 0o644) }
	add(filepath.Join(s.Programs, "linux-"+arch, k.Program), "/usr/bin/"+k.Program, files.TypeFile, 0o755)
	file(s.License, "/usr/share/doc/"+k.Program+"/copyright")
	completions := filepath.Join(s.Manual, "completions")
	file(filepath.Join(completions, "bash", k.Program), "/usr/share/bash-completion/completions/"+k.Program)
	file(filepath.Join(completions, "zsh", "_"+k.Program), "/usr/share/zsh/"+zshFolder[format]+"/_"+k.Program)
	file(filepath.Join(completions, "fish", k.Program+".fish"), "/usr/share/fish/vendor_completions.d/"+k.Program+".fish")
	pages, err := filepath.Glob(filepath.Join(s.Manual, "man", "man1", k.Program+"*.1.gz"))
	if err != nil || len(pages) == 0 {
		return nil, fmt.Errorf("%s has no manual pages in %s: %w", k.Program, s.Manual, err)
	}
	for _, page := range pages {
		file(page, "/usr/share/man/man1/"+filepath.Base(page))
	}
	if k.Unit {
		own := filepath.Join(s.Files, k.Program)
		file(filepath.Join(own, k.Program+".service"), "/usr/lib/systemd/system/"+k.Program+".service")
		file(filepath.Join(own, "sysusers.conf"), "/usr/lib/sysusers.d/"+k.Program+".conf")
		for _, name := range k.Config {
			add(filepath.Join(own, name), "/etc/fairway/"+name, files.TypeConfigNoReplace, 0o644)
		}
		for _, name := range k.Folders {
			add("", "/etc/fairway/"+name, files.TypeDir, 0o755)
		}
	}
	return out, nil
}

var (
	since  = regexp.MustCompile(`^(.+)-([0-9]+)-g([0-9a-f]+)(-dirty)?$`)
	before = regexp.MustCompile(`^([0-9][0-9.]*)-(.+)$`)
	dashes = regexp.MustCompile(`-`)
)

// Version returns a version of git as packages sort it: 0.2.0-rc.1 becomes 0.2.0~rc.1, which is before 0.2.0, and 0.2.0-5-gabc becomes
// 0.2.0+5.gabc, which is after it.
func Version(git string) string {
	more := ""
	if m := since.FindStringSubmatch(git); m != nil {
		git, more = m[1], "+"+m[2]+".g"+m[3]
		if m[4] != "" {
			more += ".dirty"
		}
	}
	if m := before.FindStringSubmatch(git); m != nil {
		git = m[1] + "~" + dashes.ReplaceAllString(m[2], ".")
	}
	return git + more
}
