// Program roster joins a registry that nobody knows to Fairway: a page with a line "name ip port" for each instance.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

type instance struct {
	ID        string   `json:"id"`
	Addresses []string `json:"addresses"`
	Port      uint16   `json:"port"`
}

type service struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Instances []instance `json:"instances"`
}

// read gives all services of the page. Half a page is an error: it must not take anything away.
func read(url string) ([]service, error) {
	answer, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, answer.Status)
	}
	services, at := []service{}, map[string]int{}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		var name, ip string
		var port uint16
		if _, err := fmt.Sscan(lines.Text(), &name, &ip, &port); err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		if _, known := at[name]; !known {
			at[name], services = len(services), append(services, service{Namespace: "shop", Name: name})
		}
		of := &services[at[name]]
		of.Instances = append(of.Instances, instance{fmt.Sprint(ip, ":", port), []string{ip}, port})
	}
	return services, lines.Err()
}

// put makes Fairway's services what the page says.
func put(api string, services []service) error {
	snapshot, err := json.Marshal(map[string]any{"services": services})
	if err != nil {
		return err
	}
	q, err := http.NewRequest(http.MethodPut, api+"/v1/snapshot", bytes.NewReader(snapshot))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", answer.Status, said)
	}
	return err
}

func main() {
	roster, api := os.Args[1], os.Args[2]
	for ; ; time.Sleep(time.Second) {
		services, err := read(roster)
		if err == nil {
			err = put(api, services) // what is as it was changes nothing, and a restart of Fairway needs no care
		}
		if err != nil {
			log.Print(err) // what was put last stays in force
		}
	}
}
