"""Names, folders and Hub ids; the registry of named priors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from diffbcp_cli import priors
from diffbcp_cli.errors import ModelError
from diffbcp_cli.priors.networks import builder_of


def test_find_knows_names_folders_and_hub_ids(tmp_path, monkeypatch):
    folder = tmp_path / "my-prior"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    assert priors.find("ffhq").parameters == 93_563_910
    assert priors.find(str(folder)).folder == folder
    source = priors.find("owner/name@v1.0")
    assert (source.repo, source.revision) == ("owner/name", "v1.0")
    monkeypatch.chdir(tmp_path)
    assert priors.find("my-prior").folder == Path("my-prior")
    with pytest.raises(ModelError, match="is a file") as caught:
        priors.find("my-prior/config.json")
    assert caught.value.hint == "--prior my-prior"
    with pytest.raises(ModelError, match="there is no prior 'ffqh'") as caught:
        priors.find("ffqh")
    assert "did you mean ffhq?" in (caught.value.hint or "")
    with pytest.raises(ModelError, match="there is no prior"):
        priors.find("a/b/c")


def test_the_registry_is_well_formed():
    for name, source in priors.registry().items():
        assert sum(place is not None for place in (source.folder, source.repo, source.package)) == 1, name
        assert source.licence, name
        assert source.revision is None or len(source.revision) == 40, name
        assert source.sha256 is None or len(source.sha256) == 64, name
        if source.config:
            with torch.device("meta"):
                options = {key: value for key, value in source.config.items() if key != "architecture"}
                network = builder_of(source.config["architecture"])(options, {}).network
            assert sum(p.numel() for p in network.parameters()) == source.parameters
            assert source.size == pytest.approx(4 * (source.parameters or 0), rel=1e-3)


def test_a_missing_registry_and_a_missing_bundled_prior_are_errors(tmp_path, monkeypatch):
    monkeypatch.setenv("DIFFBCP_MODELS", str(tmp_path))
    with pytest.raises(ModelError, match="the list of priors is not at"):
        priors.find("natural")
    (tmp_path / "registry.toml").write_text('[natural]\nfolder = "natural"\n')
    with pytest.raises(ModelError, match="the bundled prior natural is missing"):
        priors.load_prior("natural", device="cpu")


def test_looking_at_priors_does_not_import_torch():
    code = "import sys; from diffbcp_cli import priors; priors.find('ffhq'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
