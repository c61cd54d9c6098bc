"""The document as CSV and Markdown."""

from __future__ import annotations

from eval_data import document_of, make_set

from diffbcp_cli.scoring.report import csv_text, markdown_text


def test_csv_has_a_row_per_picture_and_markdown_a_table(tmp_path):
    make_set(tmp_path)
    found, _ = document_of(tmp_path, "out")
    head, *rows = csv_text(found).splitlines()
    assert len(rows) == 3
    columns = head.split(",")
    assert {"name", "psnr", "regions_filled_psnr", "calibration_whole_coverage_90"} <= set(columns)
    assert float(rows[0].split(",")[columns.index("psnr")]) == found["images"][0]["psnr"]
    text = markdown_text(found)
    assert f"| a | {found['images'][0]['psnr']:.2f} |" in text
    assert "- lpips was not computed: not asked for" in text
