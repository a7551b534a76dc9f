package install

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"fairway/deploy"
	"fairway/internal/ctl/chart"
	"fairway/internal/printable"
	"fairway/internal/spelling"
)

// profileValue is the value that names a profile. It is none of the chart: the profile's own values take its place.
const profileValue = "profile"

// profiles is the folder of the chart with a file of values for each profile.
const profiles = "profiles"

// withProfile returns the values, with the values of the profile that they name as defaults.
func withProfile(values Values) (Values, error) {
	said, ok := values[profileValue]
	if !ok {
		return values, nil
	}
	all, err := profileNames()
	if err != nil {
		return nil, err
	}
	name, ok := said.(string)
	if !ok || !slices.Contains(all, name) {
		return nil, noProfile(fmt.Sprint(said), all)
	}
	text, err := fs.ReadFile(deploy.Chart(), path.Join(profiles, name+".yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the profile %s: %w", name, err)
	}
	below, err := chart.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read the profile %s: %w", name, err)
	}
	out := chart.Merge(below, values)
	delete(out, profileValue)
	return out, nil
}

func profileNames() (out []string, err error) {
	files, err := fs.ReadDir(deploy.Chart(), profiles)
	if err != nil {
		return nil, fmt.Errorf("read the profiles of the chart: %w", err)
	}
	for _, f := range files {
		out = append(out, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	return out, nil
}

// mostTypos is how many letters the name of a profile may be wrong for one to be suggested.
const mostTypos = 2

func noProfile(name string, all []string) error {
	text := fmt.Sprintf("profile: there is no %q; there are %s", printable.Text(name, printable.Short), strings.Join(all, ", "))
	if like := spelling.DidYouMean(name, slices.Values(all), mostTypos); like != "" {
		text += "; " + like
	}
	return errors.New(text)
}
