package localhub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// port is a loopback port that a listener reserves until its process starts.
type port struct {
	number   int
	listener net.Listener
}

// release frees the port for its process. Further calls do nothing.
func (p *port) release() {
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

type ports struct{ apiServer, etcd port }

func (p *ports) release() {
	p.apiServer.release()
	p.etcd.release()
}

// portFile stores the ports between starts, so that copies of the kubeconfig stay valid.
type portFile struct {
	APIServer int `json:"apiServer"`
	Etcd      int `json:"etcd"`
}

// reservePorts reserves the stored ports that are still free, otherwise others, and stores them.
func reservePorts(path string) (*ports, error) {
	var known portFile
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil && json.Unmarshal(data, &known) != nil {
		known = portFile{} // an unreadable memory is no memory
	}

	chosen := &ports{}
	if chosen.apiServer, err = listen(known.APIServer); err != nil {
		return nil, err
	}
	if chosen.etcd, err = listen(known.Etcd); err != nil {
		chosen.release()
		return nil, err
	}
	data, err = json.Marshal(portFile{APIServer: chosen.apiServer.number, Etcd: chosen.etcd.number})
	if err == nil {
		err = writeFile(path, append(data, '\n'))
	}
	if err != nil {
		chosen.release()
		return nil, err
	}
	return chosen, nil
}

func listen(wish int) (port, error) {
	if wish > 0 && wish < 1<<16 {
		if listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", wish)); err == nil {
			return port{number: wish, listener: listener}, nil
		}
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return port{}, err
	}
	return port{number: listener.Addr().(*net.TCPAddr).Port, listener: listener}, nil
}
