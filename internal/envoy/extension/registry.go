package extension

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// docker is Docker's config.json, which Secrets of type kubernetes.io/dockerconfigjson hold too.
type docker struct {
	Auths map[string]login `json:"auths"`
}

// login holds the credentials for one registry.
type login struct {
	Auth     string `json:"auth,omitempty"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
}

// errNoDocker never contains any part of the text that could not be parsed.
var errNoDocker = errors.New("the credentials of registries are not JSON of Docker's form")

// registryOf returns the registry of an entry or of an image address: "registry.example.com", or an address in an older form.
func registryOf(name string) string {
	if _, rest, ok := strings.Cut(name, "://"); ok {
		name = rest
	}
	name, _, _ = strings.Cut(name, "/")
	if name == "index.docker.io" || name == "docker.io" {
		return "registry-1.docker.io"
	}
	return name
}

// of returns the entry for a registry; if there are several, the first by name.
func (d docker) of(registry string) (name string, is bool) {
	for _, name := range slices.Sorted(maps.Keys(d.Auths)) {
		if registryOf(name) == registry {
			return name, true
		}
	}
	return "", false
}

// Registry returns the registry of an image; empty: the module comes from elsewhere.
func (m *Module) Registry() string {
	image, is := strings.CutPrefix(m.URL, "oci://")
	if !is {
		return ""
	}
	return registryOf(image)
}

// Shown returns the part of a Docker configuration that an agent needs to pull from a registry, in the same form. An agent does not get
// credentials for other registries. Empty: there are none for this one.
func Shown(config []byte, registry string) string {
	var d docker
	if json.Unmarshal(config, &d) != nil {
		return ""
	}
	name, is := d.of(registry)
	if !is {
		return ""
	}
	out, err := json.Marshal(docker{map[string]login{name: d.Auths[name]}})
	if err != nil {
		return ""
	}
	return string(out)
}

// Login returns the credentials for a registry from a Docker configuration; empty: anonymous access.
func Login(config []byte, registry string) (user, password string, err error) {
	var d docker
	if json.Unmarshal(config, &d) != nil {
		return "", "", errNoDocker
	}
	name, is := d.of(registry)
	if !is {
		return "", "", nil
	}
	a := d.Auths[name]
	if a.Auth == "" {
		return a.Username, a.Password, nil
	}
	text, err := base64.StdEncoding.DecodeString(a.Auth)
	user, password, ok := strings.Cut(string(text), ":")
	if err != nil || !ok {
		return "", "", fmt.Errorf("the credentials of %s are not user:password in base64", registry)
	}
	return user, password, nil
}
