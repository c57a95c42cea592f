// Chooses a period by dragging over what a stream stores.

import { all } from './main.js'

// prepare makes the pictures of a part fill the fields of a period.
export function prepare(root) {
	for (const svg of all(root, '[data-first]')) {
		const { gte, lte } = svg.closest('.card').querySelector('[name="gte"]')?.form.elements ?? {}
		if (!gte) continue
		const secondAt = event => {
			const { left, width } = svg.getBoundingClientRect()
			const { first, last } = svg.dataset
			return (+first + (last - first) * Math.min(1, Math.max(0, (event.clientX - left) / width))) / 1000
		}
		let start
		svg.onpointerdown = event => {
			svg.setPointerCapture(event.pointerId)
			start = secondAt(event)
		}
		svg.onpointerup = event => {
			if (!svg.hasPointerCapture(event.pointerId)) return
			const end = secondAt(event)
			gte.valueAsNumber = Math.floor(Math.min(start, end)) * 1000
			// Or messages of the last second would not be in the period.
			lte.valueAsNumber = Math.ceil(Math.max(start, end)) * 1000
		}
	}
}
