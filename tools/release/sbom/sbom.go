// Package sbom writes a bill of materials of programs, in SPDX 2.3 as JSON, from the list of modules and versions that
// Go's linker keeps in each. Start at Write.
package sbom

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Program is a program that was built, for instance linux-amd64/pilotctl.
type Program struct{ Name, File string }

type document struct {
	Version      string         `json:"spdxVersion"`
	License      string         `json:"dataLicense"`
	ID           string         `json:"SPDXID"`
	Name         string         `json:"name"`
	Namespace    string         `json:"documentNamespace"`
	Creation     creation       `json:"creationInfo"`
	Packages     []pack         `json:"packages"`
	Relationship []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type pack struct {
	ID        string      `json:"SPDXID"`
	Name      string      `json:"name"`
	Version   string      `json:"versionInfo"`
	Supplier  string      `json:"supplier"`
	Download  string      `json:"downloadLocation"`
	Analyzed  bool        `json:"filesAnalyzed"`
	Concluded string      `json:"licenseConcluded"`
	Declared  string      `json:"licenseDeclared"`
	Copyright string      `json:"copyrightText"`
	Purpose   string      `json:"primaryPackagePurpose,omitempty"`
	File      string      `json:"packageFileName,omitempty"`
	Sums      []checksum  `json:"checksums,omitempty"`
	Refs      []reference `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// unknown is the value of SPDX for an unknown one.
const unknown = "NOASSERTION"

// Release names the release that the bill is about.
type Release struct {
	Version, Commit string
	Date            time.Time
}

// Write writes the bill of programs.
func Write(w io.Writer, r Release, programs []Program) error {
	d := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "fairway-" + r.Version,
		Namespace: "https://spdx.org/spdxdocs/fairway-" + r.Version + "-" + r.Commit,
		Creation:  creation{r.Date.UTC().Format(time.RFC3339), []string{"Tool: fairway-release"}},
	}
	modules := map[string]pack{}
	for _, p := range programs {
		if err := d.add(r, p, modules); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(modules)) {
		d.Packages = append(d.Packages, modules[id])
	}
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

func (d *document) add(r Release, p Program, modules map[string]pack) error {
	info, err := buildinfo.ReadFile(p.File)
	if err != nil {
		return err
	}
	sum, err := Sum(p.File)
	if err != nil {
		return err
	}
	id := "SPDXRef-Program-" + plain(p.Name)
	d.Packages = append(d.Packages, pack{
		ID: id, Name: filepath.Base(p.Name), Version: r.Version, Supplier: "Organization: Fairway", Download: unknown,
		Concluded: "Apache-2.0", Declared: "Apache-2.0", Copyright: unknown,
		Purpose: "APPLICATION", File: p.Name, Sums: []checksum{{"SHA256", sum}},
	})
	d.Relationship = append(d.Relationship, relationship{d.ID, "DESCRIBES", id})
	deps := []pack{module("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		deps = append(deps, module(replaced(m)))
	}
	for _, m := range deps {
		modules[m.ID] = m
		d.Relationship = append(d.Relationship, relationship{id, "DEPENDS_ON", m.ID})
	}
	return nil
}

func replaced(m *debug.Module) (path, version string) {
	if m.Replace != nil {
		m = m.Replace
	}
	return m.Path, m.Version
}

func module(path, version string) pack {
	return pack{
		ID: "SPDXRef-Module-" + plain(path+"-"+version), Name: path, Version: version, Supplier: unknown, Download: unknown,
		Concluded: unknown, Declared: unknown, Copyright: unknown, Purpose: "LIBRARY",
		Refs: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + strings.ToLower(path) + "@" + version}},
	}
}

var others = regexp.MustCompile(`[^A-Za-z0-9.-]`)

// plain returns a text of letters that identifiers may have.
func plain(text string) string { return others.ReplaceAllString(text, "-") }

// Sum returns the SHA-256 of a file.
func Sum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
